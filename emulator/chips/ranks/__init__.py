"""One emulation of several chips over several processes, which MPI starts and calls ranks.

``mesh.RankMesh`` emulates the chips of one rank; ``team.Team`` has the agreements of ranks before and after
the run, and handles the death of one.
"""
