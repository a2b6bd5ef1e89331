"""Runs the stand-in for AWS until standard input ends, so that it never outlives
whoever started it. Its settings are ministack's environment variables."""

import os
import sys
import threading

from ministack.app import main


def leave_with_starter():
    sys.stdin.buffer.read()
    os._exit(0)


if __name__ == "__main__":
    threading.Thread(target=leave_with_starter, daemon=True).start()
    main()
