"""Whether what a sample holds beside an image moves with it: masks, boxes, points, cameras, vectors, other images.

Where to look:

- `geometry_observations.py`: everything that is observed, and when; the other modules say how.
- `charts.py`: images that encode where each pixel comes from; `charted_reader.py` reads samples in which they replace
  files.
- Masks: `alignment.py` and `mask_charts.py`, with `alignment_lines.py` for the line at fault. `image_pairs.py`: second
  images that serve as masks. `drawn_targets.py`: masks and heatmaps that no file holds; `target_placement.py` compares
  two draws of one, and `camera_matrices.py` those of a camera.
- Boxes and points: `box_tables.py` recognizes them, `box_alignment.py` and `box_aspect.py` compare them with their
  image, `box_lines.py` finds the line at fault; `box_labels.py` compares labels with their boxes.
- Flips that change meaning: `keypoint_flips.py`, `symmetric_points.py` and `merged_sides.py` for left and right,
  `vector_flips.py`, `rotated_clouds.py`, and `clip_flips.py` for frames.
- `reordered_rows.py`: sequences and sets in another order, and what belongs to their entries.
"""
