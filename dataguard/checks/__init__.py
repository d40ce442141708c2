"""The catalogue: every check, in order, written by `python -m tests.pages`. No check knows another."""

from __future__ import annotations

from dataguard.checks.batches.dg401_ragged_collate import dg401_ragged_collate
from dataguard.checks.batches.dg402_lossy_collate import dg402_lossy_collate
from dataguard.checks.batches.dg403_singleton_batch import dg403_singleton_batch
from dataguard.checks.batches.dg404_empty_epoch import dg404_empty_epoch
from dataguard.checks.batches.dg405_unpinnable_batch import dg405_unpinnable_batch
from dataguard.checks.batches.dg406_double_precision_batch import dg406_double_precision_batch
from dataguard.checks.batches.dg407_unmasked_padding import dg407_unmasked_padding
from dataguard.checks.batches.dg408_device_tensor_in_worker import dg408_device_tensor_in_worker
from dataguard.checks.batches.dg409_neighbour_dependent_row import dg409_neighbour_dependent_row
from dataguard.checks.batches.dg411_overwritten_batch import dg411_overwritten_batch
from dataguard.checks.batches.dg412_wrong_mixture_weight import dg412_wrong_mixture_weight
from dataguard.checks.dataset.dg301_overlong_len import dg301_overlong_len
from dataguard.checks.dataset.dg302_endless_index import dg302_endless_index
from dataguard.checks.dataset.dg303_wrapped_index import dg303_wrapped_index
from dataguard.checks.dataset.dg304_negative_index import dg304_negative_index
from dataguard.checks.dataset.dg305_shifting_structure import dg305_shifting_structure
from dataguard.checks.dataset.dg306_shifting_label import dg306_shifting_label
from dataguard.checks.dataset.dg307_mutated_source import dg307_mutated_source
from dataguard.checks.dataset.dg308_aliased_samples import dg308_aliased_samples
from dataguard.checks.dataset.dg309_listing_order import dg309_listing_order
from dataguard.checks.dataset.dg310_hash_order import dg310_hash_order
from dataguard.checks.dataset.dg311_int_only_index import dg311_int_only_index
from dataguard.checks.dataset.dg312_substituted_sample import dg312_substituted_sample
from dataguard.checks.dataset.dg313_reseeded_process import dg313_reseeded_process
from dataguard.checks.dataset.dg314_shared_cache import dg314_shared_cache
from dataguard.checks.files.dg508_ignored_orientation import dg508_ignored_orientation
from dataguard.checks.files.dg509_clipped_depth import dg509_clipped_depth
from dataguard.checks.files.dg510_mishandled_mode import dg510_mishandled_mode
from dataguard.checks.files.dg513_unreadable_sample import dg513_unreadable_sample
from dataguard.checks.geometry.dg511_blended_mask import dg511_blended_mask
from dataguard.checks.geometry.dg512_desynced_target import dg512_desynced_target
from dataguard.checks.geometry.dg519_unswapped_keypoints import dg519_unswapped_keypoints
from dataguard.checks.geometry.dg535_unflipped_vectors import dg535_unflipped_vectors
from dataguard.checks.images.dg505_swapped_channels import dg505_swapped_channels
from dataguard.checks.images.dg506_wrong_scale import dg506_wrong_scale
from dataguard.checks.images.dg507_wrong_normalization import dg507_wrong_normalization
from dataguard.checks.images.dg529_wrapped_values import dg529_wrapped_values
from dataguard.checks.labels.dg502_label_out_of_range import dg502_label_out_of_range
from dataguard.checks.labels.dg503_label_form import dg503_label_form
from dataguard.checks.labels.dg504_blank_sample import dg504_blank_sample
from dataguard.checks.labels.dg520_restarted_labels import dg520_restarted_labels
from dataguard.checks.machine.dg601_shm_headroom import dg601_shm_headroom
from dataguard.checks.machine.dg602_growing_worker import dg602_growing_worker
from dataguard.checks.machine.dg603_copied_dataset import dg603_copied_dataset
from dataguard.checks.machine.dg604_leaking_handles import dg604_leaking_handles
from dataguard.checks.machine.dg605_oversubscribed_threads import dg605_oversubscribed_threads
from dataguard.checks.model.dg901_unlearnable_batch import dg901_unlearnable_batch
from dataguard.checks.model.dg902_target_loss_mismatch import dg902_target_loss_mismatch
from dataguard.checks.model.dg903_ignored_input import dg903_ignored_input
from dataguard.checks.provenance.dg212_unread_source import dg212_unread_source
from dataguard.checks.provenance.dg524_mispaired_files import dg524_mispaired_files
from dataguard.checks.provenance.dg525_misordered_frames import dg525_misordered_frames
from dataguard.checks.provenance.dg526_crossed_boundary import dg526_crossed_boundary
from dataguard.checks.provenance.dg527_shifted_rows import dg527_shifted_rows
from dataguard.checks.provenance.dg528_look_ahead import dg528_look_ahead
from dataguard.checks.randomness.dg101_cloned_worker_rng import dg101_cloned_worker_rng
from dataguard.checks.randomness.dg102_replayed_epoch import dg102_replayed_epoch
from dataguard.checks.randomness.dg103_frozen_augmentation import dg103_frozen_augmentation
from dataguard.checks.randomness.dg104_unspawnable_loader import dg104_unspawnable_loader
from dataguard.checks.randomness.dg105_spawn_divergence import dg105_spawn_divergence
from dataguard.checks.randomness.dg106_shared_handle import dg106_shared_handle
from dataguard.checks.randomness.dg107_deaf_workers import dg107_deaf_workers
from dataguard.checks.randomness.dg108_cloned_rank_rng import dg108_cloned_rank_rng
from dataguard.checks.reproducibility.dg701_unreproducible_run import dg701_unreproducible_run
from dataguard.checks.reproducibility.dg702_racing_order import dg702_racing_order
from dataguard.checks.reproducibility.dg703_ignored_seed import dg703_ignored_seed
from dataguard.checks.running.dg001_crashing_loader import dg001_crashing_loader
from dataguard.checks.running.dg002_dying_worker import dg002_dying_worker
from dataguard.checks.running.dg003_hanging_loader import dg003_hanging_loader
from dataguard.checks.sound.dg531_ignored_sample_rate import dg531_ignored_sample_rate
from dataguard.checks.sound.dg532_wrong_sound_scale import dg532_wrong_sound_scale
from dataguard.checks.sound.dg533_mixed_sound_channels import dg533_mixed_sound_channels
from dataguard.checks.sound.dg534_loud_padding import dg534_loud_padding
from dataguard.checks.splits.dg514_leaked_split import dg514_leaked_split
from dataguard.checks.splits.dg515_mismatched_splits import dg515_mismatched_splits
from dataguard.checks.splits.dg517_augmented_evaluation import dg517_augmented_evaluation
from dataguard.checks.splits.dg518_shared_transform import dg518_shared_transform
from dataguard.checks.splits.dg521_fitted_on_evaluation import dg521_fitted_on_evaluation
from dataguard.checks.splits.dg523_shared_group import dg523_shared_group
from dataguard.checks.streams.dg201_unsharded_workers import dg201_unsharded_workers
from dataguard.checks.streams.dg202_unsharded_ranks import dg202_unsharded_ranks
from dataguard.checks.streams.dg203_uneven_ranks import dg203_uneven_ranks
from dataguard.checks.streams.dg204_lost_samples import dg204_lost_samples
from dataguard.checks.streams.dg205_wrong_stream_length import dg205_wrong_stream_length
from dataguard.checks.streams.dg206_replayed_order import dg206_replayed_order
from dataguard.checks.streams.dg207_unshuffled_train import dg207_unshuffled_train
from dataguard.checks.streams.dg208_starved_worker import dg208_starved_worker
from dataguard.checks.streams.dg209_broken_resume import dg209_broken_resume
from dataguard.checks.streams.dg210_padded_evaluation import dg210_padded_evaluation
from dataguard.checks.streams.dg211_dropped_evaluation import dg211_dropped_evaluation
from dataguard.checks.streams.dg213_misplaced_weights import dg213_misplaced_weights
from dataguard.checks.throughput.dg801_starved_step import dg801_starved_step
from dataguard.checks.throughput.dg802_unoverlapped_copy import dg802_unoverlapped_copy
from dataguard.checks.throughput.dg803_slow_worker_count import dg803_slow_worker_count
from dataguard.checks.throughput.dg804_respawned_workers import dg804_respawned_workers
from dataguard.checks.tokens.dg410_doubly_shifted_labels import dg410_doubly_shifted_labels
from dataguard.checks.tokens.dg421_padding_in_loss import dg421_padding_in_loss
from dataguard.checks.tokens.dg422_unlearned_stop import dg422_unlearned_stop
from dataguard.checks.tokens.dg423_empty_target import dg423_empty_target
from dataguard.checks.tokens.dg424_doubled_start import dg424_doubled_start
from dataguard.checks.tokens.dg425_leaking_packs import dg425_leaking_packs
from dataguard.checks.tokens.dg426_cut_image_tokens import dg426_cut_image_tokens
from dataguard.checks.tokens.dg427_token_out_of_vocabulary import dg427_token_out_of_vocabulary
from dataguard.checks.tokens.dg428_learned_prompt import dg428_learned_prompt
from dataguard.checks.tokens.dg429_broken_pair import dg429_broken_pair
from dataguard.checks.tokens.dg430_wasted_mask import dg430_wasted_mask
from dataguard.checks.transforms.dg516_inert_transform import dg516_inert_transform
from dataguard.checks.transforms.dg522_identical_views import dg522_identical_views
from dataguard.checks.values.dg501_non_finite_sample import dg501_non_finite_sample
from dataguard.core.model import Check

CATALOGUE: tuple[Check, ...] = (
    dg001_crashing_loader,
    dg002_dying_worker,
    dg003_hanging_loader,
    dg101_cloned_worker_rng,
    dg102_replayed_epoch,
    dg103_frozen_augmentation,
    dg104_unspawnable_loader,
    dg105_spawn_divergence,
    dg106_shared_handle,
    dg107_deaf_workers,
    dg108_cloned_rank_rng,
    dg201_unsharded_workers,
    dg202_unsharded_ranks,
    dg203_uneven_ranks,
    dg204_lost_samples,
    dg205_wrong_stream_length,
    dg206_replayed_order,
    dg207_unshuffled_train,
    dg208_starved_worker,
    dg209_broken_resume,
    dg210_padded_evaluation,
    dg211_dropped_evaluation,
    dg212_unread_source,
    dg213_misplaced_weights,
    dg301_overlong_len,
    dg302_endless_index,
    dg303_wrapped_index,
    dg304_negative_index,
    dg305_shifting_structure,
    dg306_shifting_label,
    dg307_mutated_source,
    dg308_aliased_samples,
    dg309_listing_order,
    dg310_hash_order,
    dg311_int_only_index,
    dg312_substituted_sample,
    dg313_reseeded_process,
    dg314_shared_cache,
    dg401_ragged_collate,
    dg402_lossy_collate,
    dg403_singleton_batch,
    dg404_empty_epoch,
    dg405_unpinnable_batch,
    dg406_double_precision_batch,
    dg407_unmasked_padding,
    dg408_device_tensor_in_worker,
    dg409_neighbour_dependent_row,
    dg410_doubly_shifted_labels,
    dg411_overwritten_batch,
    dg412_wrong_mixture_weight,
    dg421_padding_in_loss,
    dg422_unlearned_stop,
    dg423_empty_target,
    dg424_doubled_start,
    dg425_leaking_packs,
    dg426_cut_image_tokens,
    dg427_token_out_of_vocabulary,
    dg428_learned_prompt,
    dg429_broken_pair,
    dg430_wasted_mask,
    dg501_non_finite_sample,
    dg502_label_out_of_range,
    dg503_label_form,
    dg504_blank_sample,
    dg505_swapped_channels,
    dg506_wrong_scale,
    dg507_wrong_normalization,
    dg508_ignored_orientation,
    dg509_clipped_depth,
    dg510_mishandled_mode,
    dg511_blended_mask,
    dg512_desynced_target,
    dg513_unreadable_sample,
    dg514_leaked_split,
    dg515_mismatched_splits,
    dg516_inert_transform,
    dg517_augmented_evaluation,
    dg518_shared_transform,
    dg519_unswapped_keypoints,
    dg520_restarted_labels,
    dg521_fitted_on_evaluation,
    dg522_identical_views,
    dg523_shared_group,
    dg524_mispaired_files,
    dg525_misordered_frames,
    dg526_crossed_boundary,
    dg527_shifted_rows,
    dg528_look_ahead,
    dg529_wrapped_values,
    dg531_ignored_sample_rate,
    dg532_wrong_sound_scale,
    dg533_mixed_sound_channels,
    dg534_loud_padding,
    dg535_unflipped_vectors,
    dg601_shm_headroom,
    dg602_growing_worker,
    dg603_copied_dataset,
    dg604_leaking_handles,
    dg605_oversubscribed_threads,
    dg701_unreproducible_run,
    dg702_racing_order,
    dg703_ignored_seed,
    dg801_starved_step,
    dg802_unoverlapped_copy,
    dg803_slow_worker_count,
    dg804_respawned_workers,
    dg901_unlearnable_batch,
    dg902_target_loss_mismatch,
    dg903_ignored_input,
)
