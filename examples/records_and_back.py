"""Records into a DataFrame, a question, and the answers back into a topic: python examples/records_and_back.py PATH"""

import os
import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

path = sys.argv[1] if len(sys.argv) > 1 else "/mapr/sanfrancisco/default"
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
spark = SparkSession.builder.master("local[2]").config("spark.authenticate", "true").getOrCreate()
speeds = (
    spark.read.format("fairlead")
    .option("topics", "speed")
    .load(path)
    .select(f.col("key").cast("string").alias("ship"), f.col("value").cast("string").try_cast("double").alias("knots"))
    .where("knots IS NOT NULL")  # what is no number
)
fastest = speeds.groupBy("ship").agg(f.max("knots").alias("knots")).cache()  # what is written is what is printed
rows = fastest.select(
    f.lit("fastest").alias("topic"), f.col("ship").alias("key"), f.to_json(f.struct("knots")).alias("value")
)
rows.write.format("fairlead").mode("append").save(path)
for ship, knots in fastest.collect():
    print(ship, knots)
spark.stop()
