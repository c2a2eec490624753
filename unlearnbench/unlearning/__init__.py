"""Unlearners: the base class, and the bases of methods that retrain shards and of those that update one network."""

from unlearnbench.unlearning.base import Claim as Claim
from unlearnbench.unlearning.base import Unlearner as Unlearner
from unlearnbench.unlearning.posthoc import PostHoc as PostHoc
from unlearnbench.unlearning.sharded import Sharded as Sharded
