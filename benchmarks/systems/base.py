"""What all measured systems have in common."""

from __future__ import annotations

import os
import resource
import socket
import struct
import time
from collections.abc import Iterator
from itertools import batched
from pathlib import Path
from typing import Protocol

STREAM = "/bench"
