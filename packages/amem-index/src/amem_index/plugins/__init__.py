"""One module a backend: strings only, so that asking what there is imports no driver."""
