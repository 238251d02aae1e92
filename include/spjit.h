/**
 * @file
 * spjit from C: sparse kernels compiled for one matrix. docs/use/c.md shows how it is used.
 *
 * C [m x n] = act(scale * (A [m x k] * B [k x n]) + bias + residual), A sparse, in fp32 unless the
 * problem says otherwise. A kernel is compiled for one A and runs any number of times.
 *
 * - Functions return a status: SPJIT_OK or another value of enum spjit_status. They give results
 *   through their last parameter, which is set to NULL or 0 where they fail. spjit_last_error()
 *   says what was given and what was expected. No C++ exception comes out of a function.
 * - Handles are made by the library and belong to the caller, who destroys each once. They may be
 *   destroyed in any order: what one needs of another it keeps. NULL may be destroyed.
 * - A handle may be used by several threads at once, but not while it is destroyed.
 * - A struct begins with its size, `struct_size`: set it to sizeof the struct. All other members
 *   may be 0, which is their default. A later version may add members at the end. Programs that
 *   were compiled before still work with it. A member that the library does not know must be 0,
 *   else the struct is refused.
 * - Text is UTF-8 and ends with a zero byte.
 */

#ifndef SPJIT_H
#define SPJIT_H

#include <stddef.h>
#include <stdint.h>

#define SPJIT_API __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

/** The result of a function. */
enum spjit_status {
  SPJIT_OK = 0,
  /** A pointer, size, option or struct that a function does not take. */
  SPJIT_INVALID_ARGUMENT = 1,
  /** Arrays that are no CSR matrix. */
  SPJIT_INVALID_MATRIX = 2,
  /** A file that cannot be opened, read, parsed or written. */
  SPJIT_IO_ERROR = 3,
  /** A target, instruction set or feature that this build or this machine does not have. */
  SPJIT_NOT_SUPPORTED = 4,
  /** The compiler failed; spjit_last_error_log() is what it printed. */
  SPJIT_COMPILE_FAILED = 5,
  /** The kernel was compiled and then failed its check; it was not kept. */
  SPJIT_VERIFICATION_FAILED = 6,
  /** spjit_cancel_request() stopped the compilation. */
  SPJIT_CANCELLED = 7,
  /** The compilation took longer than spjit_compile_control.timeout_ms. */
  SPJIT_DEADLINE_EXCEEDED = 8,
  /** A call of the CUDA driver failed. */
  SPJIT_DEVICE_ERROR = 9,
  /** The cache directory cannot be used. */
  SPJIT_CACHE_ERROR = 10,
  /** There is not so much memory. */
  SPJIT_OUT_OF_MEMORY = 11,
  /** Anything else that spjit refuses, such as a damaged kernel file. */
  SPJIT_ERROR = 12,
  /** A defect of spjit: please report the message. */
  SPJIT_INTERNAL_ERROR = 13
};

/** "SPJIT_OK" and so on; "unknown status" for other numbers. Never NULL. */
SPJIT_API const char* spjit_status_name(int status);

/** The message of the last call of this thread that failed; "" before one. Never NULL; valid until
 * another call of this thread fails. */
SPJIT_API const char* spjit_last_error(void);

/** After SPJIT_COMPILE_FAILED what the compiler printed; else "". As spjit_last_error(). */
SPJIT_API const char* spjit_last_error_log(void);

/** The version of the library, "0.1.0". */
SPJIT_API const char* spjit_version(void);

/* ---- The matrix A ------------------------------------------------------------------------- */

/** A sparse matrix A [rows x cols] of fp32. */
typedef struct spjit_matrix spjit_matrix;

/** The type of a CSR matrix's indices. */
enum spjit_index_type { SPJIT_INT32 = 1, SPJIT_INT64 = 2 };

/** A matrix in compressed sparse row form. The arrays are copied. */
typedef struct spjit_csr {
  size_t struct_size;
  int64_t rows;         /**< m, 0 .. 2^31 - 1 */
  int64_t cols;         /**< k, 0 .. 2^31 - 1 */
  int64_t nnz;          /**< entries */
  const void* row_ptrs; /**< rows + 1 offsets into col_idxs, ascending from 0 to nnz */
  const void* col_idxs; /**< nnz columns, each in [0, cols); in a row in any order, none twice */
  const float* values;  /**< nnz values; NaN and infinities are taken as they are */
  int32_t row_ptr_type; /**< of row_ptrs: enum spjit_index_type */
  int32_t col_idx_type; /**< of col_idxs: the same */
} spjit_csr;

/** SPJIT_INVALID_MATRIX names the first row or entry that breaks a rule. */
SPJIT_API int spjit_matrix_from_csr(const spjit_csr* csr, spjit_matrix** matrix);

/** Takes a row-major dense array; zeros (+0 and -0) are left out. */
SPJIT_API int spjit_matrix_from_dense(const float* dense, int64_t rows, int64_t cols,
                                      spjit_matrix** matrix);

/** Reads .npz, .npy, .mtx or .smtx, by extension. A file that has no values (.smtx, .mtx of a
 * pattern) gets made-up ones (docs/use/matrices.md). SPJIT_IO_ERROR names file, line and reason. */
SPJIT_API int spjit_matrix_load(const char* path, spjit_matrix** matrix);

/** Reads the weights of one layer of a model from a .safetensors file, without zeros: [out x in],
 * or [filters x all else] of a convolution. `name` is PyTorch's, "encoder.fc1.weight". Reads no
 * other tensor. docs/use/matrices.md has the forms. SPJIT_IO_ERROR names file and reason. */
SPJIT_API int spjit_matrix_load_weights(const char* path, const char* name, spjit_matrix** matrix);

/** Reads the factors of the rows of such weights, where they are integers: the operand `scale` of
 * runs. `scale` [rows] gets 1 where the weights are floats. SPJIT_INVALID_ARGUMENT if they have
 * another number of rows. */
SPJIT_API int spjit_matrix_load_weight_scale(const char* path, const char* name, float* scale,
                                             int64_t rows);

/** Makes integers of a matrix, symmetric int8. The scale of a row is its largest magnitude over
 * 127, or 1 for a row of zeros. An integer is the entry over the scale, rounded to nearest even.
 * Entries that become 0 are left out. `scale` [rows]; `cosine` and `relative_error` compare the
 * matrix with the integers times their scale, all entries as one vector: NULL, or where they go.
 * SPJIT_INVALID_ARGUMENT names a row with an entry that is not finite, or with a denormal scale. */
SPJIT_API int spjit_matrix_quantize(const spjit_matrix* matrix, spjit_matrix** integers,
                                    float* scale, double* cosine, double* relative_error);

/** Copies a matrix out: row_ptrs [rows + 1], col_idxs [nnz], ascending in each row, values [nnz].
 * NULL: not wanted. */
SPJIT_API int spjit_matrix_copy(const spjit_matrix* matrix, int64_t* row_ptrs, int32_t* col_idxs,
                                float* values);

/** -1 for NULL. */
SPJIT_API int64_t spjit_matrix_rows(const spjit_matrix* matrix);
SPJIT_API int64_t spjit_matrix_cols(const spjit_matrix* matrix);
SPJIT_API int64_t spjit_matrix_nnz(const spjit_matrix* matrix);

SPJIT_API void spjit_matrix_destroy(spjit_matrix* matrix);

/* ---- Threads of the caller ---------------------------------------------------------------- */

/** A task of a run: task(context, index). */
typedef void (*spjit_task)(void* context, int32_t index);

/** Calls task(context, 0) to task(context, tasks - 1), each once, in whichever threads and order,
 * and returns when all have returned. `tasks` is at most the number of threads that was asked for.
 * Tasks do not wait for one another: a loop in one thread is correct, too. Runs in several threads
 * call it at the same time. `user` is the caller's own. */
typedef void (*spjit_parallel_for)(void* user, int32_t tasks, spjit_task task, void* context);

/** For `threads`: all CPUs that this process may use. */
#define SPJIT_ALL_CPUS (-1)

/* ---- From a matrix to a kernel ------------------------------------------------------------ */

/** Compiles problems with one set of options, through one cache of kernels on disk. */
typedef struct spjit_compiler spjit_compiler;

/** Names are those of the command line: `spjit compile --help`. */
typedef struct spjit_compiler_options {
  size_t struct_size;
  const char* target;              /**< "host", "host-avx2", "sm_90" ...; NULL: this CPU */
  const char* search;              /**< "instant", "ranked" ...; NULL: instant */
  double search_budget_ms;         /**< 0: a minute */
  const char* family;              /**< the only family of kernels; NULL: chosen */
  int64_t network_nnz;             /**< nonzeros of all layers of the network; 0: not known */
  const char* verify;              /**< "none", "sampled", "full"; NULL: none */
  const char* cache_directory;     /**< NULL: as SPJIT_CACHE_DIR says, or ~/.cache/spjit */
  int64_t cache_size_limit_bytes;  /**< 0: as SPJIT_CACHE_SIZE says, or 4 GiB */
  spjit_parallel_for parallel_for; /**< where runs have their threads; NULL: in own ones */
  void* parallel_for_user;         /**< its first argument */
  int32_t threads;                 /**< of a run; 0: 1; or SPJIT_ALL_CPUS */
  int32_t parallel_compiles;       /**< compilations at once; 0: one a CPU */
  int32_t hot;      /**< 1: runs follow one another with nothing between; 0: as in a network */
  int32_t no_cache; /**< 1: kernels are not kept on disk, and looked for in cache_layers
                         alone */
  const char* const* cache_layers; /**< paths of cache directories and bundles that are looked at
                                        next and only read; NULL: as SPJIT_CACHE_LAYERS says */
  int64_t cache_layer_count;
  int32_t keep_source; /**< 1: CUDA C++ and PTX stay with a kernel for a GPU, whose files then have
                            them: kernel.cu.gz and kernel.ptx.gz; 0: they do not */
  const char* cache_remote; /**< a URL, or a file with options of a server that is asked last
                                 (docs/use/remote-cache.md); "off": none; NULL: as
                                 SPJIT_CACHE_REMOTE says, or ~/.config/spjit/remote.json */
  const char* compile; /**< "never": a kernel that is in no cache is SPJIT_NOT_SUPPORTED; "needed":
                            it is compiled; NULL: needed */
} spjit_compiler_options;

/** `options` may be NULL: the defaults. */
SPJIT_API int spjit_compiler_create(const spjit_compiler_options* options,
                                    spjit_compiler** compiler);
SPJIT_API void spjit_compiler_destroy(spjit_compiler* compiler);

/** How B or C lies in memory. Rows of B and C are features, columns are tokens. */
enum spjit_layout {
  SPJIT_LAYOUT_DEFAULT = 0,  /**< in a problem: features; in a run: as compiled */
  SPJIT_LAYOUT_FEATURES = 1, /**< row-major [features x n], a leading dimension apart */
  SPJIT_LAYOUT_TOKENS = 2,   /**< [n x features], as frameworks have activations */
  SPJIT_LAYOUT_PANELS = 3    /**< panels of spjit_problem.panel_columns columns */
};

enum spjit_activation {
  SPJIT_NO_ACTIVATION = 0,
  SPJIT_RELU = 1,
  SPJIT_GELU = 2,         /**< x / 2 * (1 + erf(x / sqrt(2))) */
  SPJIT_GELU_TANH = 3,    /**< its approximation by tanh */
  SPJIT_SILU = 4,         /**< x / (1 + e^-x) */
  SPJIT_CLAMP = 5,        /**< min(max(x, clamp_low), clamp_high) */
  SPJIT_HARD_SWISH = 6,   /**< x * min(max(x + 3, 0), 6) / 6 */
  SPJIT_LEAKY_RELU = 7,   /**< alpha * x where x < 0, else x */
  SPJIT_HARD_SIGMOID = 8, /**< min(max(alpha * x + beta, 0), 1) */
  SPJIT_SIGMOID = 9,      /**< 1 / (1 + e^-x) */
  SPJIT_TANH = 10
};

/** The type of elements of A, B or C. */
enum spjit_data_type {
  SPJIT_F32 = 0,
  SPJIT_BF16 = 1, /**< the upper half of an f32 */
  SPJIT_F16 = 2,  /**< IEEE 754 binary16 */
  SPJIT_I32 = 3,
  SPJIT_I8 = 4,
  SPJIT_U8 = 5,
  SPJIT_I4 = 6 /**< of A alone */
};

/** The promise on each sum of products. */
enum spjit_accumulate {
  SPJIT_ORDERED = 0, /**< fp32 FMA, columns ascending: the same bits everywhere */
  SPJIT_TENSOR = 1,  /**< the arithmetic of tensor cores; no kernel keeps it yet */
  SPJIT_BOUNDED = 2, /**< at most eps * sum |a b| from the sum in float64 */
  SPJIT_INTEGER = 3  /**< exact, in int32 */
};

/** How B becomes the bytes q of exact sums. C = float(sum of a * (q - z)) * (s * scale of the row).
 * Bias, residual and activation follow. docs/use/api.md says what s, z and q are. */
enum spjit_quantization {
  SPJIT_QUANTIZATION_NONE = 0,
  SPJIT_QUANTIZATION_GIVEN = 1,  /**< B of i8 or u8 is q; a run brings s and z of the tensor */
  SPJIT_QUANTIZATION_TENSOR = 2, /**< B of f32: u8 as ONNX's DynamicQuantizeLinear */
  SPJIT_QUANTIZATION_TOKEN = 3   /**< B of f32: symmetric i8, s = max |b| / 127 of each token */
};

/** A 2-D convolution of images X [channels x height x width]. A is its weights
 * [filters x channels / groups * kernel_height * kernel_width]. The result is
 * Y [filters x output_height x output_width]. Sizes are those of PyTorch and ONNX; images of one
 * run are a batch. */
typedef struct spjit_convolution {
  size_t struct_size;
  int64_t channels; /**< of X; required, and the next two */
  int64_t height;   /**< of X; with a run-time n typical, as width */
  int64_t width;
  int64_t kernel_height; /**< 0: 1; so all but padding */
  int64_t kernel_width;
  int64_t stride_height;
  int64_t stride_width;
  int64_t pad_top;
  int64_t pad_left;
  int64_t pad_bottom;
  int64_t pad_right;
  int64_t dilation_height;
  int64_t dilation_width;
  int64_t groups;
} spjit_convolution;

/** The layer, product or convolution that a kernel computes with A. */
typedef struct spjit_problem {
  size_t struct_size;
  int64_t n;             /**< columns of B and C (tokens), 1 .. 2^31 - 1; required, but of a
                              convolution 0: the pixels of Y */
  int64_t ldb;           /**< elements between rows (tokens) of B; 0: as many as one has */
  int64_t ldc;           /**< elements between rows (tokens) of C; 0: as many as one has */
  int64_t panel_columns; /**< fixes the panels' width; 0: chosen */
  int32_t runtime_n;     /**< 1: each run says its n; that of the problem is a typical one */
  int32_t b_layout;      /**< enum spjit_layout */
  int32_t c_layout;      /**< enum spjit_layout */
  int32_t has_scale;     /**< 1: runs have a factor for each row of C */
  int32_t has_bias;      /**< 1: runs have a summand for each row of C */
  int32_t has_residual;  /**< 1: runs have a summand for each element of C */
  int32_t activation;    /**< enum spjit_activation */
  float clamp_low;       /**< of SPJIT_CLAMP */
  float clamp_high;
  int32_t runtime_values; /**< 1: runs bring A's values (spjit_kernel_prepare_values()) */
  /** NULL: a product. Else layouts are NCHW (features) or NHWC (tokens) of X and Y, leading
   * dimensions are between channels (NCHW) or pixels (NHWC). */
  const spjit_convolution* convolution;
  float alpha; /**< of SPJIT_LEAKY_RELU (usually 0.01) and SPJIT_HARD_SIGMOID; finite */
  float beta;  /**< of SPJIT_HARD_SIGMOID, finite */
  /** Types of A, B and C: enum spjit_data_type. The matrix has values as fp32, which the type of A
   * has to have exactly. docs/use/api.md says which types a promise takes, and which of them are
   * fast. */
  int32_t a_type;
  int32_t b_type;
  int32_t c_type;            /**< of C and the residual; scale and bias are f32 */
  int32_t accumulate;        /**< enum spjit_accumulate */
  double eps;                /**< of SPJIT_BOUNDED: above 0, below 1 */
  int32_t quantization;      /**< enum spjit_quantization */
  int64_t group_columns;     /**< of A of i8 or i4, with a scale for each row and group of so many
                                  columns: 32, 64 or 128; 0: no groups (docs/use/api.md) */
  const float* group_scales; /**< [rows x groups], row by row: finite; copied */
  int64_t group_scale_count; /**< rows * groups; the last group of a row may have fewer columns */
  int32_t bias_first;        /**< 1: act(scale * (A * B + bias) + residual), of scale and bias */
} spjit_problem;

/** Lets one thread stop a compilation of another. */
typedef struct spjit_cancel spjit_cancel;

SPJIT_API int spjit_cancel_create(spjit_cancel** cancel);
/** From now on compilations with it return SPJIT_CANCELLED, those under way within about 100 ms on
 * the host. Not for signal handlers. */
SPJIT_API int spjit_cancel_request(spjit_cancel* cancel);
SPJIT_API void spjit_cancel_destroy(spjit_cancel* cancel);

/** How one compilation is stopped. */
typedef struct spjit_compile_control {
  size_t struct_size;
  const spjit_cancel* cancel; /**< NULL: never */
  double timeout_ms;          /**< then SPJIT_DEADLINE_EXCEEDED; 0: never; at most 1e9 */
} spjit_compile_control;

/** C = A * B for one A, on this CPU or for a GPU. Immutable. */
typedef struct spjit_kernel spjit_kernel;

/** A kernel from the cache, or a new one. `control` may be NULL. The matrix is not needed
 * afterwards. SPJIT_INVALID_ARGUMENT, SPJIT_INVALID_MATRIX, SPJIT_NOT_SUPPORTED,
 * SPJIT_COMPILE_FAILED, SPJIT_VERIFICATION_FAILED, SPJIT_CANCELLED, SPJIT_DEADLINE_EXCEEDED,
 * SPJIT_OUT_OF_MEMORY, SPJIT_DEVICE_ERROR. */
SPJIT_API int spjit_compile(const spjit_compiler* compiler, const spjit_matrix* matrix,
                            const spjit_problem* problem, const spjit_compile_control* control,
                            spjit_kernel** kernel);

/** Waits until new kernels are written to the server of `cache_remote`; destroying the compiler
 * drops those that wait. `control` may be NULL. `*done` is 1, or 0 if it was stopped before. */
SPJIT_API int spjit_compiler_flush_remote(const spjit_compiler* compiler,
                                          const spjit_compile_control* control, int32_t* done);

/** Counts since the compiler was made, in the text format of Prometheus (docs/use/remote-cache.md
 * lists them). Writes at most `capacity` bytes to `text`, and the size of all to `*bytes`, both
 * without a zero byte. `text` may be NULL where `capacity` is 0. */
SPJIT_API int spjit_compiler_metrics(const spjit_compiler* compiler, char* text, size_t capacity,
                                     size_t* bytes);

/* ---- Kernels as files --------------------------------------------------------------------- */

/** Writes the kernel to a folder, which is made if need be: its files and record.json, as an entry
 * of a cache (docs/use/cache.md). Whoever can write to it can run code as those who load it. */
SPJIT_API int spjit_kernel_save(const spjit_kernel* kernel, const char* folder);

typedef struct spjit_load_options {
  size_t struct_size;
  spjit_parallel_for parallel_for; /**< where runs have their threads; NULL: in own ones */
  void* parallel_for_user;
  int32_t threads;   /**< of a run; 0: 1; or SPJIT_ALL_CPUS */
  int32_t any_owner; /**< 1: also files that other users can write to */
} spjit_load_options;

/** A kernel of such a folder, or of an entry of a cache; needs neither matrix nor cache. `options`
 * may be NULL. SPJIT_CACHE_ERROR or SPJIT_ERROR if a file is missing or damaged or another user can
 * write to it; SPJIT_NOT_SUPPORTED if this CPU lacks the instruction set. */
SPJIT_API int spjit_kernel_load(const char* folder, const spjit_load_options* options,
                                spjit_kernel** kernel);

SPJIT_API void spjit_kernel_destroy(spjit_kernel* kernel);

/* ---- Bundles: kernels of a network in one file -------------------------------------------- */

/** An open bundle (docs/use/bundle.md); only read. Kernels keep what they need of it. */
typedef struct spjit_bundle spjit_bundle;

typedef struct spjit_bundle_options {
  size_t struct_size;
  const char* public_key; /**< PEM text of an Ed25519 key, or the path of a file that has it. Only a
                               bundle that it signed is opened, any change is refused. NULL: any */
  int32_t any_owner;      /**< 1: also a file that other users can write to */
} spjit_bundle_options;

/** `options` may be NULL. SPJIT_IO_ERROR if it cannot be opened, is damaged, cut short or not
 * signed by the key, or others can write to it. SPJIT_NOT_SUPPORTED for a key where OpenSSL's
 * libcrypto is missing. */
SPJIT_API int spjit_bundle_open(const char* path, const spjit_bundle_options* options,
                                spjit_bundle** bundle);
SPJIT_API void spjit_bundle_destroy(spjit_bundle* bundle);

/** Its entries: kernels of layers; -1 for NULL. */
SPJIT_API int64_t spjit_bundle_count(const spjit_bundle* bundle);

/** Entry 0 to count - 1 as a JSON object. The text belongs to the bundle.
 *
 *     {"layer", "target", "card": what choices were made for, "weights": a hash, "family", "key",
 *      "rows", "cols", "nnz", "n", "runtime_n", "bytes", "problem": as in a record}
 */
SPJIT_API int spjit_bundle_entry_info(const spjit_bundle* bundle, int64_t entry, const char** json);

/** The entry of a layer for `target` ("host-avx2", "sm_90"), or with NULL the best for this CPU. It
 * is -1 if the layer is not there. SPJIT_NOT_SUPPORTED if the layer is for other targets only. */
SPJIT_API int spjit_bundle_find_layer(const spjit_bundle* bundle, const char* layer,
                                      const char* target, int64_t* entry);

/** Finds the entry of a problem and a matrix, by a hash of its weights. `target` is that of
 * spjit_bundle_find_layer(). */
SPJIT_API int spjit_bundle_find(const spjit_bundle* bundle, const spjit_matrix* matrix,
                                const spjit_problem* problem, const char* target, int64_t* entry);

/** The kernel of an entry, its files verified. `options` may be NULL; any_owner has to be 0.
 * SPJIT_IO_ERROR, SPJIT_NOT_SUPPORTED, SPJIT_ERROR. */
SPJIT_API int spjit_bundle_load(const spjit_bundle* bundle, int64_t entry,
                                const spjit_load_options* options, spjit_kernel** kernel);

/** Reads and verifies all files. SPJIT_IO_ERROR names the first that is damaged. */
SPJIT_API int spjit_bundle_verify(const spjit_bundle* bundle);

/** Makes a bundle. For one thread at a time. */
typedef struct spjit_bundle_writer spjit_bundle_writer;

/** `private_key`: PEM text of an Ed25519 key, or the path of a file that has it; NULL: not signed.
 */
SPJIT_API int spjit_bundle_writer_create(const char* path, const char* private_key,
                                         spjit_bundle_writer** writer);
/** SPJIT_INVALID_ARGUMENT for a layer that is there with this kernel, or with one of other weights,
 * epilogue or convolution, unless its name is "". */
SPJIT_API int spjit_bundle_writer_add(spjit_bundle_writer* writer, const char* layer,
                                      const spjit_kernel* kernel);
/** All kernels of a bundle, but those that are there. */
SPJIT_API int spjit_bundle_writer_add_bundle(spjit_bundle_writer* writer,
                                             const spjit_bundle* bundle);
/** Makes the file appear, whole; only destroying the writer may follow. */
SPJIT_API int spjit_bundle_writer_finish(spjit_bundle_writer* writer);
/** Frees the writer. A bundle that was not finished does not appear. */
SPJIT_API void spjit_bundle_writer_destroy(spjit_bundle_writer* writer);

/* ---- What a kernel is --------------------------------------------------------------------- */

/** m, k and n (of a run-time n the typical one); -1 for NULL. */
SPJIT_API int64_t spjit_kernel_rows(const spjit_kernel* kernel);
SPJIT_API int64_t spjit_kernel_cols(const spjit_kernel* kernel);
SPJIT_API int64_t spjit_kernel_n(const spjit_kernel* kernel);

/** All that is known about it as a JSON object. The text belongs to the kernel.
 *
 *     {"family", "target", "device", "threads", "tile", "reason", "key", "note", "not_cached",
 *      "rows", "cols", "nnz", "n", "runtime_n", "ldb", "ldc", "panel_columns", "runtime_values",
 *      "b_layout", "c_layout": "features", "tokens" or "panels",
 *      "convolution": null or {"channels", "height", "width", "kernel", "stride", "dilation",
 *                      "pad": [top, left, bottom, right],
 *                      "groups" (1: weights have the channels of all groups)},
 *      "epilogue": {"scale", "bias", "residual", "bias_first" (only where it is so), "activation":
 *                   "none", "relu", "gelu", "gelu-tanh", "silu", "clamp", "hard-swish",
 *                   "leaky-relu", "hard-sigmoid", "sigmoid" or "tanh", "low", "high" (of clamp;
 *                   null: none), "alpha", "beta" (null: it has none)},
 *      "numerics": {"a", "b", "c": "f32", "bf16", "f16", "i32", "i8", "u8" or (of a) "i4",
 *                   "accumulate": "ordered", "tensor", "integer" or "bounded:EPS",
 *                   "quantize" (only where B is): "given", "tensor" or "token"},
 *      "group_columns" (only where A has scales of groups),
 *      "code_bytes", "weight_bytes", "from_cache", "cache_directory" (null: not from one),
 *      "compile_ms", "cuda": null or {"arch", "compiled_from", "toolchain", "threads", "blocks_x",
 *               "blocks_y", "predicted_registers", "registers", "spilled_bytes", "active_blocks"},
 *      "verification": null or {"passed", "mode", "max_abs_error", "max_error_over_bound",
 *                       "rows_checked", "columns_checked", "complete", "check_ms"}}
 */
SPJIT_API int spjit_kernel_info(const spjit_kernel* kernel, const char** json);

/* ---- Runs --------------------------------------------------------------------------------- */

/** Values of A in the order in which one kernel reads them. */
typedef struct spjit_values spjit_values;

/** Prepares A's values for a kernel with runtime_values: `count` of them, in CSR order with
 * ascending columns. They are copied. Any number of runs may use the result. */
SPJIT_API int spjit_kernel_prepare_values(const spjit_kernel* kernel, const float* values,
                                          int64_t count, spjit_values** prepared);
/** Prepares the values of a matrix with A's pattern. For a convolution with groups it has the
 * channels of a group or of all. */
SPJIT_API int spjit_kernel_prepare_values_of(const spjit_kernel* kernel, const spjit_matrix* matrix,
                                             spjit_values** prepared);
SPJIT_API void spjit_values_destroy(spjit_values* values);

/** The operands of a run. C must overlap none of the others, but that the residual may be C. */
typedef struct spjit_arguments {
  size_t struct_size;
  const void* b; /**< elements of the kernel's types: float, if the problem has no others */
  int64_t ldb;   /**< elements between rows (tokens) of B; 0: as compiled, or as many as one has */
  void* c;
  int64_t ldc;      /**< the same of C */
  int64_t n;        /**< with a run-time n: columns of B and C, 0: nothing is computed; else, and
                         of a convolution, 0 or what it was compiled for */
  int32_t b_layout; /**< enum spjit_layout; host kernels take others than compiled, maybe slower */
  int32_t c_layout;
  const float* scale;         /**< [m], where the problem has a scale */
  const float* bias;          /**< [m], where the problem has a bias */
  const void* residual;       /**< as C, where the problem has a residual */
  int64_t ldr;                /**< of the residual; 0: ldc */
  const spjit_values* values; /**< of a kernel with runtime_values */
  int64_t batch;              /**< products with one A; 0: 1 */
  int64_t b_distance;         /**< elements from one B to the next; below 0: to the one before */
  int64_t c_distance;
  int64_t residual_distance;
  void* workspace; /**< memory for this run alone; NULL: what kernels of this process share */
  size_t workspace_bytes; /**< spjit_kernel_workspace_bytes() or more */
  void* stream;           /**< of spjit_kernel_launch() on a GPU; NULL: the default stream */
  /** Size of the images of a convolution with a run-time n, which follows from it; 0: as
   * compiled. It is 0 where spjit_kernel_info() has no convolution: a kernel of one tap without
   * stride and padding is a product. Its n is the pixels of an image. */
  int64_t height;
  int64_t width;
  /** With SPJIT_QUANTIZATION_GIVEN, and only then: B stands for b_scale[0] * (B - b_zero_point). */
  const float* b_scale;
  int32_t b_zero_point; /**< what the type of B has */
  /** With a C of i8 or u8, and only then: C = round(Y / c_scale[0]) + c_zero_point, saturated, as
   * ONNX's QuantizeLinear. Finite and above 0; NULL: 1. */
  const float* c_scale;
  int32_t c_zero_point; /**< what the type of C has */
} spjit_arguments;

/** Computes C of operands in host memory and returns when it is done. SPJIT_INVALID_ARGUMENT,
 * SPJIT_OUT_OF_MEMORY, SPJIT_DEVICE_ERROR. */
SPJIT_API int spjit_kernel_run(const spjit_kernel* kernel, const spjit_arguments* arguments);

/** Bytes of workspace for a run with such sizes and layouts; 0: it needs none. Pointers may be
 * NULL, but residual == c counts. */
SPJIT_API int spjit_kernel_workspace_bytes(const spjit_kernel* kernel,
                                           const spjit_arguments* arguments, size_t* bytes);

/** A kernel for a GPU, loaded into one of this machine; a host kernel is given again. */
SPJIT_API int spjit_kernel_to_device(const spjit_kernel* kernel, int32_t ordinal,
                                     spjit_kernel** loaded);

/** Puts a launch of a loaded kernel into arguments.stream and returns; B and C are device memory.
 * On the host it is spjit_kernel_run(). */
SPJIT_API int spjit_kernel_launch(const spjit_kernel* kernel, const spjit_arguments* arguments);

/* ---- Recurrent layers --------------------------------------------------------------------- */

/** An LSTM, GRU or RNN of kernels. Immutable. docs/use/recurrent.md says what is computed. */
typedef struct spjit_recurrent spjit_recurrent;

enum spjit_cell {
  SPJIT_LSTM = 1,            /**< gates i, f, g, o */
  SPJIT_GRU = 2,             /**< gates r, z, n; r is applied to the product of n */
  SPJIT_GRU_RESET_FIRST = 3, /**< gates r, z, n; r is applied to the state before n's product */
  SPJIT_RNN_TANH = 4,        /**< one gate */
  SPJIT_RNN_RELU = 5
};

enum spjit_direction { SPJIT_FORWARD = 0, SPJIT_REVERSE = 1, SPJIT_BOTH_DIRECTIONS = 2 };

/** The kernels of a recurrent layer, of SPJIT_BOTH_DIRECTIONS first those of the forward one. Their
 * A are weights with the rows of all gates, one gate after another. Each is a product on this host
 * in fp32, and has a bias or nothing besides. Its n is the batch, at run time or fixed. The n of
 * the input's kernel is steps * batch at run time, or fixed for one step. */
typedef struct spjit_recurrent_layer {
  size_t struct_size;
  int32_t cell;                      /**< enum spjit_cell; required */
  int32_t direction;                 /**< enum spjit_direction */
  const spjit_kernel* input[2];      /**< [gates * hidden x inputs] */
  const spjit_kernel* recurrent[2];  /**< [gates * hidden x outputs], of SPJIT_GRU_RESET_FIRST
                                          without the rows of n */
  const spjit_kernel* candidate[2];  /**< of SPJIT_GRU_RESET_FIRST alone: n, [hidden x hidden] */
  const spjit_kernel* projection[2]; /**< of SPJIT_LSTM: [outputs x hidden], no bias; NULL: outputs
                                          are hidden */
} spjit_recurrent_layer;

/** Keeps the kernels, which may be destroyed. SPJIT_INVALID_ARGUMENT for kernels that do not fit
 * the cell or one another. */
SPJIT_API int spjit_recurrent_create(const spjit_recurrent_layer* layer,
                                     spjit_recurrent** recurrent);
SPJIT_API void spjit_recurrent_destroy(spjit_recurrent* recurrent);

/** The operands of a run. Outputs overlap nothing, but that h_n may be h0 and c_n c0. */
typedef struct spjit_recurrent_arguments {
  size_t struct_size;
  int64_t steps;          /**< 0: the state stays as it was */
  int64_t batch;          /**< sequences; 0: nothing is written */
  const float* x;         /**< [steps x batch x inputs] */
  int64_t x_step;         /**< floats from one step to the next; 0: as in a contiguous array, so
                               all strides */
  int64_t x_batch;        /**< from one sequence to the next */
  float* y;               /**< [steps x batch x directions x outputs]; NULL: not wanted */
  int64_t y_step;         /**< as of x */
  int64_t y_batch;        /**< as of x */
  int64_t y_direction;    /**< from one direction to the other */
  const int64_t* lengths; /**< [batch]: steps of each sequence, 0 to `steps`; NULL: all. y of later
                               steps is 0, the state stays as it was. */
  const float* h0;        /**< [directions x batch x outputs]; NULL: 0 */
  const float* c0;        /**< of SPJIT_LSTM: [directions x batch x hidden]; NULL: 0 */
  float* h_n;             /**< as h0, after the last step; NULL: not wanted */
  float* c_n;             /**< as c0 */
  /** Biases of each direction, where its kernel has one: [gates * hidden]; as many as the recurrent
   * kernel has rows; [hidden]. */
  const float* input_bias[2];
  const float* recurrent_bias[2];
  const float* candidate_bias[2];
} spjit_recurrent_arguments;

/** Returns when it is done. SPJIT_INVALID_ARGUMENT, SPJIT_OUT_OF_MEMORY. */
SPJIT_API int spjit_recurrent_run(const spjit_recurrent* recurrent,
                                  const spjit_recurrent_arguments* arguments);

#ifdef __cplusplus
}
#endif

#endif
