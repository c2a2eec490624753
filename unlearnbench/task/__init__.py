"""What a method sees: the task it is trained on and the queries it answers."""

from unlearnbench.task.surroundings import Surroundings as Surroundings
from unlearnbench.task.surroundings import surroundings as surroundings
from unlearnbench.task.task import Query as Query
from unlearnbench.task.task import Task as Task
from unlearnbench.task.task import View as View
from unlearnbench.task.task import make_query as make_query
from unlearnbench.task.training import Training as Training
