"""Runs: one coordinator that thinks, one loop that keeps slots busy, one seam below it.

    run, run_many         what users call; they check, then drive sessions in a loop
    loop, session         keep every slot busy; one session is one run as its driver sees it
    folds, failures       evaluations under way, retried and timed; when failures are reason to stop
    executor              the seam: what the loop asks of the place where runs are worked on
    ray_executor          on Ray: actor, slots, connection; tasks is one fold on a worker
    local_executor        on this machine: local_worker is one process of it
    coordinator           who owns a run's optimizer and journal
    display, tally        what a terminal shows
    result                what a run gives back

Only `ray_executor`, `actor`, `connection`, `cluster_access` and `slots` know Ray.
"""
