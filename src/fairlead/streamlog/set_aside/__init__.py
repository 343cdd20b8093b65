"""Setting damaged objects aside: a log that was stopped by damage goes on without them, and says what it lost.

For a person who has no copy of an object. Nothing is deleted: the object is copied to `set-aside/` first. What is whole
in it stays in the log. For the rest the log gets rows in its place:

* a gap for the offsets that are lost, as far as somebody knows them: the object's own columns, later rows of the
  partition, which say where it ended before them, or a checkpoint;
* where nobody knows how far a partition went, a mark that it takes no records, so that no offset is given twice;
* a topic whose rows are left and whose making is lost is made again under another name, with such a mark.

All of it rules with one manifest. Commits that wait for merging are merged with it, since a commit has its number from
its place.

In: a storage that no server uses, and names. Out: lines that say what was lost. `evidence` finds out what is lost,
`stand_ins` makes the rows in its place, `cure` puts the manifest. It never deletes what it has not copied.
"""
