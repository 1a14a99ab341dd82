// tests.h: the suites, one a source file, and what they share
#pragma once
#include <check.h>
#include <stdbool.h>
#include <stdio.h>

Suite *diag_suite(void);
Suite *parse_suite(void);
Suite *build_suite(void);
Suite *graph_suite(void);
Suite *eval_suite(void);
Suite *host_suite(void);
Suite *wrappers_suite(void);
Suite *cache_suite(void);
Suite *runtime_suite(void);
Suite *npy_suite(void);
Suite *command_suite(void);
Suite *run_suite(void);
Suite *index_suite(void);
Suite *kernels_suite(void);
Suite *print_suite(void);
Suite *rewrite_suite(void);
Suite *storage_suite(void);
Suite *eval_move_suite(void);
Suite *eval_reduce_suite(void);
Suite *tolerance_suite(void);
