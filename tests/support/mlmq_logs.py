"""What logs of MLMQ begin with."""

from __future__ import annotations

HEADER = "BrokerConfiguration Scenario[SimpleShutdownBroker] Port[8099] WorkerThreadCount[4]"
