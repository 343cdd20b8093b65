"""Rows through Spark: its session and its JVM, rounds of tasks, and what the two Python processes of a task need.

In: a data source with a reader and a sink. Out: packets that go from a reader to the sink of the same task, for the
length of a round; the bytes of large ones can go beside Spark. Always true: a row is handed on as soon as it is there.
It never knows what a packet means, nor for whom it is carried: replication and the mirror both use it.

    java, settings, session, output, folder, process   the JVM, from its start to its end
    schema, buffer, packets                            what a row is
    beside                                             bytes that go in no row
    handover, rounds, task_thread, daemon              the processes of a task
    control                                            their connection to whoever decides
"""
