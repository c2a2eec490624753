"""Make a graph of users, train a model on it, and save both: graph.pt and state.pt."""

import torch
from torch_geometric.data import Data

import unlearnbench

rng = torch.Generator().manual_seed(0)
users = 1000 + torch.arange(300)  # the numbers of their accounts
group = torch.randint(3, (300,), generator=rng)
features = torch.nn.functional.one_hot(group, 8) + torch.randn(300, 8, generator=rng)
ends = torch.randint(300, (2, 6000), generator=rng)
friends = ends[:, (group[ends[0]] == group[ends[1]]) & (ends[0] != ends[1])]
both_ways = torch.cat([friends, friends.flip(0)], dim=1).unique(dim=1)
data = Data(x=features, y=group, edge_index=both_ways, ids=users)
torch.save(data.to_dict(), "graph.pt")

task = unlearnbench.task_from_data(data, epochs=20)
# Shards by a hash of the account's number: forgetting is exact.
method = unlearnbench.method("sisa[num_shards=4,partitioner=hash]")
method.fit(task)
method.save("state.pt")
print(f"trained on {len(task.split.train)} users, the first are {task.split.train[:3].tolist()}")
