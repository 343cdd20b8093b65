#!/bin/sh
# Replication set up by hand, step by step, in the commands of the original's manual (`pip install` brings them too):
# create the replica with the source's settings, register it (paused), check, authorise the source at the replica, check,
# copy what is there, start.
#
#   examples/manual-procedure.sh /mapr/sanfrancisco/activity /mapr/newyork/activity
#   examples/manual-procedure.sh mapr/sanfrancisco/activity1 mapr/sanfrancisco/activity2     inside one cluster
#
# Both clusters must be known (`fairlead cluster list`), and the replicator of the source's cluster must run
# (`fairlead up` runs it). One command sets up the same: fairlead stream replica autosetup -path … -replica …
set -eu

source=$1
replica=$2

echo "1. Create the replica with the settings of the source"
maprcli stream create -path "$replica" \
  -copyMetaFrom "$source"

echo "2. Register it as a replica of the source, paused"
maprcli stream replica add -path "$source" \
  -replica "$replica" -paused true

echo "3. Verify that it is the right replica"
maprcli stream replica list -path "$source"

echo "4. Authorize replication between the streams: the other half of the two-way agreement"
maprcli stream upstream add -path "$replica" -upstream \
  "$source"

echo "5. Verify that it is the right source"
maprcli stream upstream list -path "$replica"

echo "6. Load the replica with the data of the source"
mapr copystream -src "$source" -dst "$replica"

echo "7. Start replication"
maprcli stream replica resume -path "$source" \
  -replica "$replica"
