"""Does a kept partition reveal which nodes were there when it was made?"""
