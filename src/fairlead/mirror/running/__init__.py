"""One mirror that runs: all sources, one destination, from its start to its end in order.

    mirror                 the run: what is begun, what goes on meanwhile, and the end
    paces                  how often it does what
    holding                one process at a time
    alongside              what goes along with the records: commits, consumer groups, settings, access rules
    emitting, syncing      what MirrorMaker 2's tools read
    dry_run                what it would do
    ending                 what is under way is waited for, and positions are written once more

In: `MirrorOptions`, sources that can be opened, a destination. Out: batches, positions and books there; lines for
people, and a `Tally`. Always true: nothing is recorded that the destination has not acknowledged. Never: reads property
files, knows which engine carries.
"""
