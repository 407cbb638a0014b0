"""The Ray runtime: one central actor that thinks, one remote task per fold, one loop in between.

    runner, run_many     what users call; they check, then drive sessions in a loop
    loop, session        keep every slot busy; one session is one run as its driver sees it
    failures             when failed evaluations are reason to stop
    actor, keeper        the process that owns a run's optimizer and journal
    replay, run_problem  the same state from the journal alone
    tasks, outcome       one fold on a worker, and what came of it
    slots, connection    what the cluster offers, and how it is reached

Only `actor`, `tasks`, `slots`, `connection`, `session` and `loop` know Ray.
"""
