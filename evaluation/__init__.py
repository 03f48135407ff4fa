"""Whether search finds what answers, measured on questions and corpora that others wrote."""
