"""Runs: one coordinator that thinks, one task a fold, one loop in between.

    run, run_many         what users call; they check, then drive sessions in a loop
    loop, session         keep every slot busy; one session is one run as its driver sees it
    folds, tasks          the evaluations under way, and one fold on a worker
    failures              when failed evaluations are reason to stop
    coordinator, actor    who owns a run's optimizer and journal, and its process on Ray
    slots, connection     what the cluster offers, and how it is reached
    display, tally        what a terminal shows
    result                what a run gives back

Only `actor`, `tasks`, `slots`, `connection`, `folds`, `session` and `loop` know Ray.
"""
