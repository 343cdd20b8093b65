"""A function between two clusters: only the readings that tell of a fault are mirrored, without the heat of machines.

In this folder, with the addresses of your clusters in the files:

    PYTHONPATH=. fairlead mirror --consumer.config sourceCluster1Consumer.config \\
        --producer.config targetClusterProducer.config --whitelist=".*" --message.handler handler:faults_alone
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc


def faults_alone(records: pa.RecordBatch) -> pa.RecordBatch:
    """Some records of one partition, as they are to be sent."""
    chosen = records.filter(pc.invert(pc.match_substring(records["value"].cast("string"), '"fault": null')))
    coarse = pc.replace_substring_regex(chosen["value"].cast("string"), r'"celsius": [^,}]*, ', "")
    return chosen.set_column(chosen.schema.get_field_index("value"), "value", coarse.cast("binary"))
