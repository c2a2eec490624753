"""What is the same for every method: splits, requests and poison."""

from unlearnbench.protocol.protocol import Protocol as Protocol
from unlearnbench.protocol.protocol import Setting as Setting
from unlearnbench.protocol.requests import Forget as Forget
from unlearnbench.protocol.requests import Request as Request
