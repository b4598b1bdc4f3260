"""What a build will make, decided before anything is encoded. Pure: no clocks, no models.

Everything here is a function of the corpus, the scans and the recipe, so that a run that was interrupted, or ran on
other workers, plans the same shards and ends in the same bytes.
"""
