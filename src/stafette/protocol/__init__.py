"""The wire: bytes in, messages out. No socket, no clock, no asyncio (docs/protocol.md is the contract)."""
