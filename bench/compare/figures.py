"""Means of ratios."""

import math


def geometric_mean(values):
    return math.exp(sum(map(math.log, values)) / len(values)) if values else math.nan
