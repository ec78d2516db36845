//! Settings of DuckDB that say how it does its work or shows it, and nothing about answers: they are taken, and do nothing here but
//! tell what was set.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::prelude::SessionConfig;

/// Their names, what they are where nothing was set, and the type of that.
const INERT: [(&str, &str, &str); 136] = [
    ("allocator_background_threads", "false", "BOOLEAN"),
    ("allocator_bulk_deallocation_flush_threshold", "512.0 MiB", "VARCHAR"),
    ("allocator_flush_threshold", "134217728B", "VARCHAR"),
    ("allow_community_extensions", "true", "BOOLEAN"),
    ("allow_extensions_metadata_mismatch", "false", "BOOLEAN"),
    ("allow_persistent_secrets", "true", "BOOLEAN"),
    ("allow_unredacted_secrets", "false", "BOOLEAN"),
    ("allow_unsigned_extensions", "false", "BOOLEAN"),
    ("approximate_join_order_threshold", "12", "UBIGINT"),
    ("arrow_large_buffer_size", "false", "BOOLEAN"),
    ("arrow_lossless_conversion", "false", "BOOLEAN"),
    ("arrow_output_list_view", "false", "BOOLEAN"),
    ("arrow_output_version", "1.0", "VARCHAR"),
    ("asof_loop_join_threshold", "64", "UBIGINT"),
    ("async_threads", "1", "BIGINT"),
    ("auto_checkpoint_skip_wal_threshold", "100000", "UBIGINT"),
    ("autoinstall_extension_repository", "", "VARCHAR"),
    ("autoinstall_known_extensions", "true", "BOOLEAN"),
    ("autoload_known_extensions", "true", "BOOLEAN"),
    ("block_allocator_memory", "0 bytes", "VARCHAR"),
    ("cache_local_files", "false", "BOOLEAN"),
    ("calendar", "gregorian", "VARCHAR"),
    ("catalog_error_max_schemas", "100", "UBIGINT"),
    ("checkpoint_on_detach", "DEFAULT", "VARCHAR"),
    ("checkpoint_threshold", "16.0 MiB", "VARCHAR"),
    ("custom_extension_repository", "", "VARCHAR"),
    ("custom_profiling_settings", "", "VARCHAR"),
    ("default_block_size", "262144", "UBIGINT"),
    ("default_secret_storage", "local_file", "VARCHAR"),
    ("delim_join_as_cte", "true", "BOOLEAN"),
    ("disable_parquet_prefetching", "false", "BOOLEAN"),
    ("disabled_compression_methods", "", "VARCHAR"),
    ("disabled_log_types", "", "VARCHAR"),
    ("disabled_optimizers", "", "VARCHAR"),
    ("dynamic_or_filter_threshold", "50", "UBIGINT"),
    ("enable_caching_operators", "false", "BOOLEAN"),
    ("enable_external_access", "true", "BOOLEAN"),
    ("enable_external_file_cache", "true", "BOOLEAN"),
    ("enable_fsst_vectors", "false", "BOOLEAN"),
    ("enable_http_logging", "false", "BOOLEAN"),
    ("enable_http_metadata_cache", "false", "BOOLEAN"),
    ("enable_logging", "false", "BOOLEAN"),
    ("enable_macro_dependencies", "false", "BOOLEAN"),
    ("enable_object_cache", "false", "BOOLEAN"),
    ("enable_optimistic_write", "true", "BOOLEAN"),
    ("enable_optimizer", "true", "BOOLEAN"),
    ("enable_print_progress_bar", "false", "BOOLEAN"),
    ("enable_profiling", "", "VARCHAR"),
    ("enable_progress_bar", "false", "BOOLEAN"),
    ("enable_progress_bar_print", "true", "BOOLEAN"),
    ("enable_view_dependencies", "false", "BOOLEAN"),
    ("enabled_log_types", "", "VARCHAR"),
    ("errors_as_json", "false", "BOOLEAN"),
    ("experimental_metadata_reuse", "true", "BOOLEAN"),
    ("explain_output", "PHYSICAL_ONLY", "VARCHAR"),
    ("extension_directories", "[]", "VARCHAR[]"),
    ("extension_directory", "", "VARCHAR"),
    ("external_file_cache_local_max_block_size", "16384", "UBIGINT"),
    ("external_file_cache_remote_max_block_size", "2097152", "UBIGINT"),
    ("external_file_cache_remote_min_block_size", "4096", "UBIGINT"),
    ("external_file_cache_request_sizing", "AUTO", "VARCHAR"),
    ("external_file_cache_spill", "false", "BOOLEAN"),
    ("external_threads", "1", "UBIGINT"),
    ("file_search_path", "", "VARCHAR"),
    ("force_bitpacking_mode", "", "VARCHAR"),
    ("force_column_metadata_reuse", "false", "BOOLEAN"),
    ("force_compression", "auto", "VARCHAR"),
    ("force_mbedtls_unsafe", "false", "BOOLEAN"),
    ("force_variant_shredding", "", "VARCHAR"),
    ("fsync_mode", "STANDARD", "VARCHAR"),
    ("geometry_minimum_shredding_size", "30000", "BIGINT"),
    ("home_directory", "", "VARCHAR"),
    ("http_client_pool_capacity", "16", "BIGINT"),
    ("http_logging_output", "", "VARCHAR"),
    ("http_proxy", "", "VARCHAR"),
    ("http_proxy_password", "", "VARCHAR"),
    ("http_proxy_username", "", "VARCHAR"),
    ("immediate_transaction_mode", "false", "BOOLEAN"),
    ("index_scan_max_count", "2048", "UBIGINT"),
    ("index_scan_percentage", "0.001", "DOUBLE"),
    ("initial_column_segment_size", "2048", "UBIGINT"),
    ("lambda_syntax", "DEFAULT", "VARCHAR"),
    ("lock_configuration", "false", "BOOLEAN"),
    ("log_query_path", "", "VARCHAR"),
    ("logging_level", "INFO", "VARCHAR"),
    ("logging_mode", "LEVEL_ONLY", "VARCHAR"),
    ("logging_storage", "memory", "VARCHAR"),
    ("max_expression_depth", "1000", "UBIGINT"),
    ("max_streaming_buffer_size", "10.0 MiB", "VARCHAR"),
    ("max_temp_directory_size", "90% of available disk space", "VARCHAR"),
    ("max_vacuum_tasks", "100", "UBIGINT"),
    ("merge_join_threshold", "1000", "UBIGINT"),
    ("nested_loop_join_threshold", "5", "UBIGINT"),
    ("order_by_non_integer_literal", "false", "BOOLEAN"),
    ("ordered_aggregate_threshold", "262144", "UBIGINT"),
    ("pandas_analyze_sample", "1000", "UBIGINT"),
    ("parquet_metadata_cache", "false", "BOOLEAN"),
    ("parquet_prefetch_column_gap", "", "UBIGINT"),
    ("partitioned_write_flush_threshold", "524288", "UBIGINT"),
    ("partitioned_write_max_open_files", "100", "UBIGINT"),
    ("password", "", "VARCHAR"),
    ("perfect_ht_threshold", "12", "UBIGINT"),
    ("pin_threads", "auto", "VARCHAR"),
    ("pivot_limit", "100000", "UBIGINT"),
    ("prefer_range_joins", "false", "BOOLEAN"),
    ("prefetch_all_parquet_files", "false", "BOOLEAN"),
    ("preserve_insertion_order", "true", "BOOLEAN"),
    ("produce_arrow_string_view", "false", "BOOLEAN"),
    ("profile_output", "", "VARCHAR"),
    ("profiling_coverage", "SELECT", "VARCHAR"),
    ("profiling_mode", "standard", "VARCHAR"),
    ("profiling_output", "", "VARCHAR"),
    ("profiling_renderer_settings", "{}", "MAP(VARCHAR, VARCHAR)"),
    ("progress_bar_time", "2000", "BIGINT"),
    ("python_enable_replacements", "true", "BOOLEAN"),
    ("python_scan_all_frames", "false", "BOOLEAN"),
    ("read_ahead_depth", "-1", "BIGINT"),
    ("redact_http_logs", "true", "BOOLEAN"),
    ("scheduler_process_partial", "false", "BOOLEAN"),
    ("secret_directory", "", "VARCHAR"),
    ("storage_block_prefetch", "REMOTE_ONLY", "VARCHAR"),
    ("storage_compatibility_version", "latest", "VARCHAR"),
    ("streaming_buffer_size", "10.0 MiB", "VARCHAR"),
    ("temp_directory", "", "VARCHAR"),
    ("temp_file_encryption", "false", "BOOLEAN"),
    ("tracked_metrics", "[*]", "VARCHAR[]"),
    ("user", "", "VARCHAR"),
    ("username", "", "VARCHAR"),
    ("validate_external_file_cache", "VALIDATE_ALL", "VARCHAR"),
    ("variant_minimum_shredding_size", "30000", "BIGINT"),
    ("wal_autocheckpoint", "16.0 MiB", "VARCHAR"),
    ("wal_autocheckpoint_entries", "0", "UBIGINT"),
    ("worker_threads_pin", "", "VARCHAR"),
    ("write_buffer_row_group_count", "5", "UBIGINT"),
    ("write_buffer_row_group_memory_limit", "0 bytes", "VARCHAR"),
    ("zstd_min_string_length", "4096", "UBIGINT"),
];

/// Values that a session has set, as they were written.
#[derive(Debug, Clone, Default)]
pub struct SetValues(HashMap<String, String>);

impl SetValues {
    /// Keeps a value, or goes back to what holds where nothing was set.
    pub(crate) fn set(config: &mut SessionConfig, name: &str, value: Option<&str>) {
        let mut values = config.get_extension::<Self>().map_or_else(Self::default, |values| Self::clone(&values));
        match value {
            Some(value) => values.0.insert(name.to_owned(), value.to_owned()),
            None => values.0.remove(name),
        };
        config.set_extension(Arc::new(values));
    }

    /// The value of a setting, if a session has set it.
    pub fn of(config: &SessionConfig, name: &str) -> Option<String> {
        config.get_extension::<Self>().and_then(|values| values.0.get(name).cloned())
    }
}

/// The settings that do nothing, with their values in a session and the types of these.
pub fn inert(config: &SessionConfig) -> Vec<(&'static str, String, &'static str)> {
    let told = |(name, default, kind): (&'static str, &str, _)| {
        (name, SetValues::of(config, name).unwrap_or(default.to_owned()), kind)
    };
    INERT.into_iter().map(told).collect()
}

/// Whether a setting is one of these; those for DuckDB's own tests begin with `debug_`.
pub(crate) fn is_inert(variable: &str) -> bool {
    variable.starts_with("debug_") || INERT.iter().any(|(name, ..)| *name == variable)
}
