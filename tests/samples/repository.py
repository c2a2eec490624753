"""Where the checkout is that these tests are part of."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
SAMPLES = Path(__file__).parent
