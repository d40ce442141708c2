"""`dataguard.guard` as a callback or handler of a training library, each in a module that imports that library."""
