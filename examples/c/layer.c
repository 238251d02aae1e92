/* A layer of a network from C: Y [tokens x m] = gelu(X [tokens x k] * A^T + bias), for any number
 * of tokens, in threads and memory of the caller. Compares Y with a slow loop; exit status 0 if
 * they agree.
 *
 *     layer_in_c WEIGHTS            .npz, .npy, .mtx or .smtx
 *     layer_in_c MODEL NAME         .safetensors, and weights in it
 */

#include <math.h>
#include <spjit.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TOKENS = 5 };  // NOLINT(readability-identifier-naming): as C has constants

/* Stands for the thread pool of a program: one thread, which is correct, too. */
static void run_tasks(void* user, int32_t tasks, spjit_task task, void* context) {
  int* loops = user;
  ++*loops;
  for (int32_t i = 0; i < tasks; ++i) task(context, i);
}

static int check(int status, const char* what) {
  if (status == SPJIT_OK) return 1;
  fprintf(stderr, "%s: %s: %s\n", what, spjit_status_name(status), spjit_last_error());
  return 0;
}

/* gelu(x) as spjit_activation says. */
static double gelu(double x) { return x / 2 * (1 + erf(x / sqrt(2))); }

/* B of the identity: C is A itself. The weights as a dense array [m x k], or NULL. */
static float* dense_weights(const spjit_compiler* compiler, const spjit_matrix* matrix) {
  const int64_t m = spjit_matrix_rows(matrix);
  const int64_t k = spjit_matrix_cols(matrix);
  float* identity = calloc((size_t)(k * k), sizeof(float));
  float* dense = calloc((size_t)(m * k), sizeof(float));
  spjit_kernel* kernel = NULL;
  const spjit_problem problem = {.struct_size = sizeof(problem), .n = k};
  spjit_arguments arguments = {.struct_size = sizeof(arguments), .b = identity, .c = dense};
  int ok = identity != NULL && dense != NULL;

  for (int64_t i = 0; ok && i < k; ++i) identity[i * k + i] = 1;
  ok = ok && check(spjit_compile(compiler, matrix, &problem, NULL, &kernel), "compile") &&
       check(spjit_kernel_run(kernel, &arguments), "run");
  spjit_kernel_destroy(kernel);
  free(identity);
  if (ok) return dense;
  free(dense);
  return NULL;
}

/* The largest difference of Y from a slow loop. */
static double largest_error(const float* weights, const float* x, const float* bias, const float* y,
                            const spjit_kernel* kernel) {
  const int64_t m = spjit_kernel_rows(kernel);
  const int64_t k = spjit_kernel_cols(kernel);
  double largest = 0;
  for (int64_t token = 0; token < TOKENS; ++token) {
    for (int64_t row = 0; row < m; ++row) {
      double sum = bias[row];
      for (int64_t i = 0; i < k; ++i) {
        sum += (double)weights[row * k + i] * (double)x[token * k + i];
      }
      largest = fmax(largest, fabs(gelu(sum) - (double)y[token * m + row]));
    }
  }
  return largest;
}

/* Runs the layer in a workspace of its own. */
static int run_layer(const spjit_kernel* kernel, spjit_arguments arguments) {
  int ok = check(spjit_kernel_workspace_bytes(kernel, &arguments, &arguments.workspace_bytes),
                 "workspace");
  if (ok && arguments.workspace_bytes > 0) arguments.workspace = malloc(arguments.workspace_bytes);
  ok = ok && check(spjit_kernel_run(kernel, &arguments), "run");
  free(arguments.workspace);
  return ok;
}

static int use_layer(const spjit_kernel* kernel, const float* weights) {
  const int64_t m = spjit_kernel_rows(kernel);
  const int64_t k = spjit_kernel_cols(kernel);
  float* x = malloc((size_t)(TOKENS * k) * sizeof(float));
  float* y = malloc((size_t)(TOKENS * m) * sizeof(float));
  float* bias = malloc((size_t)m * sizeof(float));
  int ok = x != NULL && y != NULL && bias != NULL;
  if (ok) {
    for (int64_t i = 0; i < TOKENS * k; ++i) x[i] = (float)(i % 7 - 3) / 4;
    for (int64_t i = 0; i < m; ++i) bias[i] = (float)(i % 3 - 1) / 8;
    const spjit_arguments arguments = {
        .struct_size = sizeof(arguments), .b = x, .c = y, .n = TOKENS, .bias = bias};
    ok = run_layer(kernel, arguments);
  }
  if (ok) {
    const double error = largest_error(weights, x, bias, y, kernel);
    printf("largest error of Y [%d x %lld]: %.1e\n", TOKENS, (long long)m, error);
    ok = error < 1e-5;
  }
  free(bias);
  free(y);
  free(x);
  return ok;
}

static int refuses_what_is_wrong(const spjit_kernel* kernel) {
  const spjit_arguments nothing = {.struct_size = sizeof(nothing), .n = TOKENS};
  const int status = spjit_kernel_run(kernel, &nothing);
  printf("without operands: %s: %s\n", spjit_status_name(status), spjit_last_error());
  return status == SPJIT_INVALID_ARGUMENT && strlen(spjit_last_error()) > 0;
}

int main(int argc, char** argv) {
  int loops = 0;
  spjit_matrix* matrix = NULL;
  spjit_compiler* compiler = NULL;
  spjit_kernel* kernel = NULL;
  float* weights = NULL;
  const char* info = NULL;
  const spjit_compiler_options options = {.struct_size = sizeof(options),
                                          .threads = 2,
                                          .parallel_for = run_tasks,
                                          .parallel_for_user = &loops};
  const spjit_problem problem = {.struct_size = sizeof(problem),
                                 .n = 128, /* typical */
                                 .runtime_n = 1,
                                 .b_layout = SPJIT_LAYOUT_TOKENS,
                                 .c_layout = SPJIT_LAYOUT_TOKENS,
                                 .has_bias = 1,
                                 .activation = SPJIT_GELU};
  if (argc != 2 && argc != 3) {
    fprintf(stderr, "usage: %s WEIGHTS | MODEL NAME\n", argv[0]);
    return 2;
  }

  const int loaded = argc == 2 ? spjit_matrix_load(argv[1], &matrix)
                               : spjit_matrix_load_weights(argv[1], argv[2], &matrix);
  const int ok = check(loaded, "load") &&
                 check(spjit_compiler_create(&options, &compiler), "compiler") &&
                 check(spjit_compile(compiler, matrix, &problem, NULL, &kernel), "compile") &&
                 (weights = dense_weights(compiler, matrix)) != NULL &&
                 check(spjit_kernel_info(kernel, &info), "info") && use_layer(kernel, weights) &&
                 refuses_what_is_wrong(kernel);
  if (info != NULL) printf("%s\n%d runs shared their work\n", info, loops);

  free(weights);
  spjit_kernel_destroy(kernel);
  spjit_compiler_destroy(compiler);
  spjit_matrix_destroy(matrix);
  return ok ? 0 : 1;
}
