// SPDX-License-Identifier: Apache-2.0
//
// cuBLASLt counts in columns: a row-major matrix is its transpose there, so
// that C^T = W * A^T is what it is asked for, with W's storage transposed.

#include "kernels/cuda/cublas/lt_matmul.h"

#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/cuda/cublas/cublas_library.h"

namespace qgemm::cuda {
namespace {

// Algorithms that the library is asked for; the first may not fit.
constexpr int kCandidates = 8;

cudaDataType_t DataType(FloatType type) {
  switch (type) {
    case FloatType::kFloat32:
      return CUDA_R_32F;
    case FloatType::kFloat16:
      return CUDA_R_16F;
    case FloatType::kBFloat16:
      return CUDA_R_16BF;
  }
  return CUDA_R_32F;
}

std::string NameOf(const LtShape& shape) {
  return absl::StrCat("cuBLAS: m n k = ", shape.m, " ", shape.n, " ", shape.k,
                      ", ", Name(shape.operand_type), " to ",
                      Name(shape.c_type));
}

}  // namespace

// Descriptors of one shape, as the library wants them at every call.
struct LtMatmul::Plan {
  explicit Plan(const CublasLibrary& functions) : library(functions) {}
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;
  ~Plan() {
    if (preference != nullptr) library.MatmulPreferenceDestroy(preference);
    for (cublasLtMatrixLayout_t layout : {w, a, c}) {
      if (layout != nullptr) library.MatrixLayoutDestroy(layout);
    }
    if (operation != nullptr) library.MatmulDescDestroy(operation);
  }

  absl::Status Describe(const LtShape& shape);
  absl::Status Prefer();
  absl::Status Choose(cublasLtHandle_t handle, const LtShape& shape);

  template <typename Value>
  absl::Status SetPreference(cublasLtMatmulPreferenceAttributes_t attribute,
                             Value value) {
    return ToStatus(library,
                    library.MatmulPreferenceSetAttribute(preference, attribute,
                                                         &value, sizeof(value)),
                    "cuBLAS: set a preference");
  }

  const CublasLibrary& library;
  cublasLtMatmulDesc_t operation = nullptr;
  cublasLtMatrixLayout_t w = nullptr;
  cublasLtMatrixLayout_t a = nullptr;
  cublasLtMatrixLayout_t c = nullptr;
  cublasLtMatmulPreference_t preference = nullptr;
  cublasLtMatmulAlgo_t algorithm{};
};

absl::Status LtMatmul::Plan::Describe(const LtShape& shape) {
  RETURN_IF_ERROR(ToStatus(
      library,
      library.MatmulDescCreate(&operation, CUBLAS_COMPUTE_32F, CUDA_R_32F),
      "cuBLAS: describe an operation"));
  const cublasOperation_t transposed = CUBLAS_OP_T;
  RETURN_IF_ERROR(ToStatus(
      library,
      library.MatmulDescSetAttribute(operation, CUBLASLT_MATMUL_DESC_TRANSA,
                                     &transposed, sizeof(transposed)),
      "cuBLAS: transpose an operand"));
  const cudaDataType_t type = DataType(shape.operand_type);
  RETURN_IF_ERROR(ToStatus(
      library,
      library.MatrixLayoutCreate(&w, type, shape.k, shape.n, shape.w_stride),
      "cuBLAS: describe W"));
  RETURN_IF_ERROR(ToStatus(
      library,
      library.MatrixLayoutCreate(&a, type, shape.k, shape.m, shape.a_stride),
      "cuBLAS: describe A"));
  return ToStatus(library,
                  library.MatrixLayoutCreate(&c, DataType(shape.c_type),
                                             shape.n, shape.m, shape.c_stride),
                  "cuBLAS: describe C");
}

absl::Status LtMatmul::Plan::Prefer() {
  RETURN_IF_ERROR(ToStatus(library, library.MatmulPreferenceCreate(&preference),
                           "cuBLAS: create preferences"));
  RETURN_IF_ERROR(
      SetPreference(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kWorkspaceBytes));
  // K may be split in parts, the same for all of C; their sums are kept in fp32
  // and added in one order.
  RETURN_IF_ERROR(SetPreference(
      CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
      static_cast<uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE)));
  for (const cublasLtMatmulPreferenceAttributes_t attribute :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
    RETURN_IF_ERROR(
        SetPreference(attribute, static_cast<uint32_t>(kOperandAlignment)));
  }
  return absl::OkStatus();
}

absl::Status LtMatmul::Plan::Choose(cublasLtHandle_t handle,
                                    const LtShape& shape) {
  RETURN_IF_ERROR(Describe(shape));
  RETURN_IF_ERROR(Prefer());
  std::array<cublasLtMatmulHeuristicResult_t, kCandidates> candidates{};
  int found = 0;
  RETURN_IF_ERROR(ToStatus(
      library,
      library.MatmulAlgoGetHeuristic(handle, operation, w, a, c, c, preference,
                                     kCandidates, candidates.data(), &found),
      NameOf(shape)));
  // The library's best first.
  for (int i = 0; i < found; ++i) {
    const cublasLtMatmulHeuristicResult_t& candidate = candidates[i];
    if (candidate.state != CUBLAS_STATUS_SUCCESS ||
        candidate.workspaceSize > static_cast<size_t>(kWorkspaceBytes)) {
      continue;
    }
    algorithm = candidate.algo;
    return absl::OkStatus();
  }
  return absl::UnimplementedError(
      absl::StrCat(NameOf(shape), ": no algorithm among ", found));
}

absl::StatusOr<std::unique_ptr<LtMatmul>> LtMatmul::Create() {
  ASSIGN_OR_RETURN(const CublasLibrary library, LoadCublasLibrary());
  cublasLtHandle_t handle = nullptr;
  RETURN_IF_ERROR(
      ToStatus(library, library.Create(&handle), "cuBLAS: create a handle"));
  return std::unique_ptr<LtMatmul>(new LtMatmul(library, handle));
}

LtMatmul::LtMatmul(const CublasLibrary& library, cublasLtHandle_t handle)
    : library_(library), handle_(handle) {}

LtMatmul::~LtMatmul() {
  plans_.clear();
  library_.Destroy(handle_);
}

absl::Status LtMatmul::Enqueue(const LtShape& shape, const LtOperands& operands,
                               cudaStream_t stream) {
  ASSIGN_OR_RETURN(const Plan* plan, PlanOf(shape));
  const float beta = 0;
  const cublasStatus_t code = library_.Matmul(
      handle_, plan->operation, &operands.alpha, operands.w, plan->w,
      operands.a, plan->a, &beta, operands.c, plan->c, operands.c, plan->c,
      &plan->algorithm, operands.workspace, kWorkspaceBytes, stream);
  if (code == CUBLAS_STATUS_SUCCESS) return absl::OkStatus();
  return ToStatus(library_, code, NameOf(shape));
}

absl::StatusOr<const LtMatmul::Plan*> LtMatmul::PlanOf(const LtShape& shape) {
  const auto known = plans_.find(shape);
  if (known != plans_.end()) return known->second.get();
  auto plan = std::make_unique<Plan>(library_);
  RETURN_IF_ERROR(plan->Choose(handle_, shape));
  return plans_.emplace(shape, std::move(plan)).first->second.get();
}

}  // namespace qgemm::cuda
