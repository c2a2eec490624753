"""Delete from graph.pt the users that a certificate says were forgotten: delete.py CERTIFICATE."""

import json
import sys
from pathlib import Path

import torch
from torch_geometric.data import Data

gone = json.loads(Path(sys.argv[1]).read_text())["forgotten"]["ids"]
data = Data(**torch.load("graph.pt", weights_only=True))
kept = data.subgraph(~torch.isin(data.ids, torch.tensor(gone)))
torch.save(kept.to_dict(), "graph.pt")
print(f"{kept.num_nodes} of {data.num_nodes} users are left")
