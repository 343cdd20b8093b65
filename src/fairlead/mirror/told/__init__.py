"""What a mirror is told, by its command line and by property files, read and checked.

In: words of the command line, files. Out: `MirrorOptions`, and a flow of settings for each pair of clusters. Always
true: nothing is opened yet; what makes no sense is refused by the name of its option or key.
"""
