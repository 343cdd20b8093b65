"""Spark runs the workers of a mirror: the format `fairlead.mirror`, rounds of a task, and the host of Spark's JVM.

In: workers of some mirrors of this process. Out: their tasks, in one query, which is started again when it dies. Always
true: nothing is decided here, and no secret is in an option of Spark, only the file where the coordinator's lies. It
never knows what a row means.
"""
