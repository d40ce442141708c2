"""The HTML page of `dataguard show`."""

from __future__ import annotations

from typing import Any

from dataguard.figures import Pictures
from dataguard.render.html.figures import FigureRenderer
from dataguard.render.html.templating import page
from dataguard.render.sample import shape_of
from dataguard.sample_view import SampleViews


def render(views: SampleViews, *, unicode: bool = True, document: bool = True, **look: Any) -> str:
    """Return the samples as one HTML document, or without `document` what a notebook embeds; `look` is ignored."""
    figures = [
        Pictures(sample.name, "", ("",), tuple(picture.label for picture in sample.pictures), (sample.pictures,))
        for sample in views.samples
    ]
    studio = FigureRenderer(figures)
    samples = [
        {
            "name": sample.name,
            "error": sample.error,
            "figure": studio.draw(figure) if sample.pictures else None,
            "rows": [
                ["leaf", "type", "shape", "values", "digest", ""],
                *(
                    [leaf.path, leaf.type, shape_of(leaf), leaf.values, leaf.digest, leaf.note]
                    for leaf in sample.leaves
                ),
            ],
        }
        for sample, figure in zip(views.samples, figures, strict=True)
    ]
    return page(
        "sample.html.j2",
        layout="page.html.j2" if document else "notebook.html.j2",
        unicode=unicode,
        target=views.target,
        loader=views.loader,
        samples=samples,
    )
