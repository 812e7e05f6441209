"""The files and folders of a series.

::

    RUNS/NAME-0001/experiment.toml      the file as it was given, and beside it the behaviours it names
                   series.json          the plan: the runs in their order, with the state of each
                   series.lock          held by the runner
                   system/              database and brokers, while it is running
                   runs/001-LABEL-r1/   a run; -again2 when the first attempt failed
                        run.json        everything about the run
                        traces/         one row per request and tier
                        samples/        of queues and processes, each second
                        logs/           of all processes
                   requests/            the requests of all runs, made from the traces; deleting it is safe
                   analysis/            the results of the pipeline, with report.html
"""

from __future__ import annotations

EXPERIMENT_FILE = "experiment.toml"
SERIES_FILE = "series.json"
LOCK_FILE = "series.lock"
SYSTEM = "system"
RUNS = "runs"

RUN_FILE = "run.json"
TRACES = "traces"
SAMPLES = "samples"
LOGS = "logs"

REQUESTS = "requests"
ANALYSIS = "analysis"
REPORT_FILE = "report.html"
