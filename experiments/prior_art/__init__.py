"""Published results done again: SERENITY's cells, MODeL's AlexNet, their solvers beside ours."""
