"""A plugin of methods that do to their process what no method should; it needs the toys beside it."""

MISBEHAVING = """
import ctypes
import os
import random
import signal
import sys
import time
from pathlib import Path

import numpy as np
import torch
from ub_toys import Steady

from unlearnbench import hookimpl


def is_warm_up(task):
    return int(task.graph.ids.min()) < 5000


class Shape(Steady):
    name = "shape"

    def predict(self, query):
        return super().predict(query)[:-1]


class Classes(Steady):
    name = "classes"

    def predict(self, query):
        return torch.cat([super().predict(query)] * 2, dim=1)


class Nothing(Steady):
    name = "nothing"

    def predict(self, query):
        return None


class Whole(Steady):
    name = "whole"

    def predict(self, query):
        return super().predict(query).long()


class Probabilities(Steady):
    name = "probabilities"

    def predict(self, query):
        return super().predict(query).exp()


class Elsewhere(Steady):
    name = "elsewhere"

    def predict(self, query):
        return super().predict(query).to("meta")


class StateElsewhere(Steady):
    name = "state-elsewhere"

    def state(self):
        return {"members/000/weight": self.weight.to("meta")}


class NoState(Steady):
    name = "no-state"

    def state(self):
        return {"weight": 1.0}


class NotFinite(Steady):
    name = "not-finite"

    def predict(self, query):
        return super().predict(query) * float("nan")


class WritesFeatures(Steady):
    name = "writes-features"

    def fit(self, task):
        super().fit(task)
        task.graph.x.mul_(0)


class WritesUnseen(Steady):
    '''Past the counter of torch that notices writing in place.'''

    name = "writes-unseen"

    def unlearn(self, request, retained):
        super().unlearn(request, retained)
        retained.graph.edge_index.numpy()[0, 0] ^= 1


class WritesTargets(Steady):
    name = "writes-targets"

    def predict(self, query):
        answer = super().predict(query)
        query.targets.copy_(query.targets.flip(0))
        return answer


class WritesRequest(Steady):
    name = "writes-request"

    def unlearn(self, request, retained):
        super().unlearn(request, retained)
        request.ids.zero_()


class Draws(Steady):
    '''Its numbers come from the global generators, and it seeds none.'''

    name = "draws"

    def fit(self, task):
        self.weight = torch.rand(1) + random.random() + np.random.rand()


class Seeds(Steady):
    name = "seeds"

    def fit(self, task):
        torch.manual_seed(1)
        random.seed(1)
        np.random.seed(1)
        super().fit(task)


class Settings(Steady):
    name = "settings"

    def fit(self, task):
        super().fit(task)
        os.chdir("/")
        torch.set_default_dtype(torch.float64)
        torch.set_num_threads(2)
        torch.set_grad_enabled(False)
        torch.use_deterministic_algorithms(True)


class Prints(Steady):
    name = "prints"

    def fit(self, task):
        super().fit(task)
        print("printed by a method")


class Forks(Steady):
    '''A copy of the process that does not know it is one.'''

    name = "forks"

    def unlearn(self, request, retained):
        super().unlearn(request, retained)
        if os.fork():
            os.wait()


class Leaves(Steady):
    name = "leaves"

    def unlearn(self, request, retained):
        super().unlearn(request, retained)
        if not is_warm_up(retained) and os.fork() == 0:
            Path(os.environ["TOY_LEAVES"]).write_text(str(os.getpid()))
            time.sleep(60)
            os._exit(0)


class Odd(Steady):
    name = "odd"

    def unlearn(self, request, retained):
        class Strange(BaseException):
            pass

        raise Strange("not even an Exception")


class Hungry(Steady):
    name = "hungry"

    def unlearn(self, request, retained):
        torch.empty(10**15)


class Exits(Steady):
    name = "exits"

    def unlearn(self, request, retained):
        os._exit(137)


class Vanishes(Steady):
    name = "vanishes"

    def unlearn(self, request, retained):
        os._exit(0)


class Dies(Steady):
    name = "dies"

    def unlearn(self, request, retained):
        os.kill(os.getpid(), signal.SIGKILL)


class Crashes(Steady):
    name = "crashes"

    def unlearn(self, request, retained):
        ctypes.string_at(0)


class Hangs(Steady):
    '''And says so in the file that TOY_HANGS names.'''

    name = "hangs"

    def unlearn(self, request, retained):
        super().unlearn(request, retained)
        if is_warm_up(retained):
            return
        if os.fork() == 0:
            time.sleep(600)
            os._exit(0)
        Path(os.environ["TOY_HANGS"]).write_text(str(os.getpid()))
        sys.stdin.read()
        while True:
            time.sleep(0.01)


@hookimpl
def register_unlearners(register):
    for cls in list(globals().values()):
        if isinstance(cls, type) and issubclass(cls, Steady) and cls is not Steady:
            register(cls)
"""
