"""How MirrorMaker 2's property file is read."""
