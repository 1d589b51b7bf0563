"""The Python client of rkat, a runtime for agent sessions that outlive any context window."""

from .agent import Agent
from .client import Blob, Client
from .connection import connect
from .contract.results import RunResult
from .errors import RkatError
from .events.delivery import Delivery, Event
from .events.reading import describe_event
from .events.stream import EventStream, SessionStream
from .session import Session
from .tools import Tool

__all__ = [
    "Agent",
    "Blob",
    "Client",
    "Delivery",
    "Event",
    "EventStream",
    "RkatError",
    "RunResult",
    "Session",
    "SessionStream",
    "Tool",
    "connect",
    "describe_event",
]
