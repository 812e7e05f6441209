#!/bin/sh
# A tour in half a minute: start everything in .demo/, pass messages in Python and in SQL, measure for a moment, stop.
set -eu
cd "$(dirname "$0")/.."
trap 'stafette down --data .demo' EXIT

url=$(stafette up --data .demo --port 0 --no-web)
python examples/relay.py "$url"
python examples/transactional_send.py "$(stafette db url --data .demo)"
echo "Five seconds of 64 clients, half of them sending, half receiving:"
stafette bench --url "$url" --seconds 5
