"""Structured fuzzing: ``./dev fuzz [MINUTES] [TARGET …]``; one module for each target in `tests.fuzz.targets`.

Every execution is made from its target and a number alone, so that a finding is made again by
``./dev fuzz --once TARGET NUMBER``. What is found lies in ``.fuzz/TARGET/``, with what was said; the next run goes on
behind the last number. Inputs that once were a finding stay in ``tests/data/fuzz/TARGET``, where `test_fuzz` takes
them.
"""
