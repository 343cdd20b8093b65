"""The source's side of links: what people do with them, who reads and sends what, and how far each one is.

In: records of links, connections of reader and sink tasks, what destinations answer. Out: grants, announcements, the
state that `replica list` shows. Always true: a slice of a link is held by at most one reader at a time. It never
carries a record.
"""
