// SPDX-License-Identifier: Apache-2.0
//
// The tables of docs/programs.md, line by line. It goes on after a fault: only
// what depends on an unknown width or type is left out then.

#include "tests/server/rpc/program_legality.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"

namespace qgemm {
namespace {

constexpr uint64_t kMaxWidth = 1'048'576;
constexpr uint64_t kMaxConstantBytes = 1'048'576;
constexpr uint64_t kMaxScratchRowBytes = 4'194'304;
constexpr int kMaxOps = 64;
constexpr uint64_t kMaxTopK = 1024;
constexpr size_t kMaxNameBytes = 128;

struct Value {
  enum class Origin { kInput, kConstant, kResult };

  Origin origin = Origin::kInput;
  int type = 0;        // a NumberType; 0: unknown
  uint64_t width = 0;  // 0: unknown
  int made_by = -1;
  int last_reader = -1;
  bool is_output = false;
  bool is_one_of_two = false;  // of TOP_K

  bool is_used() const { return last_reader >= 0 || is_output; }
  uint64_t row_bytes() const {
    return width *
           (type == v1::NUMBER_TYPE_FP32 || type == v1::NUMBER_TYPE_INT32 ? 4
                                                                          : 2);
  }
};

bool IsFloat(int type) {
  return type == v1::NUMBER_TYPE_FP32 || type == v1::NUMBER_TYPE_FP16 ||
         type == v1::NUMBER_TYPE_BF16;
}

bool IsName(const std::string& name) {
  return name.size() <= kMaxNameBytes &&
         name.find_first_not_of(
             "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
             "abcdefghijklmnopqrstuvwxyz"
             "0123456789._/-") == std::string::npos;
}

// An id's letters may be of either case.
std::string KeyOf(const std::string& name_or_id) {
  constexpr size_t kIdDigits = 64;
  const bool is_id = name_or_id.size() == kIdDigits &&
                     name_or_id.find_first_not_of("0123456789abcdefABCDEF") ==
                         std::string::npos;
  return is_id ? absl::AsciiStrToLower(name_or_id) : name_or_id;
}

bool HasUnknownFields(const v1::Program& program) {
  v1::Program known = program;
  known.DiscardUnknownFields();
  return known.ByteSizeLong() != program.ByteSizeLong();
}

class Reader {
 public:
  Reader(const v1::Program& program, const WeightsFactsByName& weights)
      : program_(program), weights_(weights) {}

  std::set<absl::StatusCode> Read() {
    ReadHead();
    for (const v1::Program::Input& input : program_.inputs()) {
      AddSource(Value::Origin::kInput, input.name(), input.type(),
                input.width());
    }
    ReadConstants();
    for (op_ = 0; op_ < program_.ops_size(); ++op_) {
      ReadOp(program_.ops(op_));
    }
    ReadOutputs();
    for (size_t i = 0; i < values_.size(); ++i) RequireUse(i);
    if (faults_.empty()) RequireScratch();
    return faults_;
  }

 private:
  void Require(bool truth) {
    if (!truth) faults_.insert(absl::StatusCode::kInvalidArgument);
  }
  void RequireOffered(bool truth) {
    if (!truth) faults_.insert(absl::StatusCode::kUnimplemented);
  }

  void ReadHead() {
    Require(program_.revision() >= 1);
    RequireOffered(program_.revision() <= 1);
    RequireOffered(!HasUnknownFields(program_));
    Require(program_.value_type() == v1::NUMBER_TYPE_UNSPECIFIED ||
            IsFloat(program_.value_type()));
    Require(program_.ops_size() >= 1 && program_.ops_size() <= kMaxOps);
  }

  int TypeOf(v1::NumberType type) const {
    return type == v1::NUMBER_TYPE_UNSPECIFIED ? program_.value_type() : type;
  }

  void AddSource(Value::Origin origin, const std::string& name,
                 v1::NumberType declared, uint64_t width) {
    Value value;
    value.origin = origin;
    value.type = TypeOf(declared);
    value.width = width;
    Require(IsName(name));
    Require(IsFloat(value.type));
    Require(width >= 1 && width <= kMaxWidth);
    values_.push_back(value);
  }

  void ReadConstants() {
    uint64_t bytes = 0;
    for (const v1::Program::Constant& constant : program_.constants()) {
      const uint64_t element =
          TypeOf(constant.type()) == v1::NUMBER_TYPE_FP32 ? 4 : 2;
      AddSource(Value::Origin::kConstant, constant.name(), constant.type(),
                constant.values().size() / element);
      Require(constant.values().size() % element == 0);
      bytes += constant.values().size();
    }
    Require(bytes <= kMaxConstantBytes);
  }

  // The value that an op reads; null if it does not stand before the op.
  Value* Operand(uint64_t number) {
    Require(number < values_before_op_);
    if (number >= values_before_op_) return nullptr;
    Value& value = values_[number];
    Require(value.type != v1::NUMBER_TYPE_INT32);
    value.last_reader = op_;
    return &value;
  }

  // x, which every kind has; a value without width and type if it is wrong.
  Value X(uint64_t number) {
    const Value* const value = Operand(number);
    if (value == nullptr) return {};
    Require(value->origin != Value::Origin::kConstant);
    return *value;
  }

  void RequireWidth(const Value& value, uint64_t width, uint64_t or_width) {
    if (value.width == 0 || width == 0) return;
    Require(value.width == width || value.width == or_width);
  }

  void NormConstant(uint64_t number, uint64_t width, uint64_t or_width) {
    const Value* const value = Operand(number);
    if (value == nullptr) return;
    Require(value->origin == Value::Origin::kConstant);
    RequireWidth(*value, width, or_width);
  }

  void RequireEps(float eps) { Require(std::isfinite(eps) && eps >= 0); }

  void ReadOp(const v1::Program::Op& op) {
    values_before_op_ = values_.size();
    Require(IsName(op.name()));
    const uint64_t width = WidthOf(op);
    if (op.kind_case() != v1::Program::Op::kTopK) {
      const int type = TypeOf(op.type());
      Require(IsFloat(type));
      AddResult(type, width);
      return;
    }
    // "Unset": fp32 is what it stands for.
    Require(op.type() == v1::NUMBER_TYPE_UNSPECIFIED ||
            op.type() == v1::NUMBER_TYPE_FP32);
    for (const int type : {v1::NUMBER_TYPE_FP32, v1::NUMBER_TYPE_INT32}) {
      AddResult(type, width);
      values_.back().is_one_of_two = true;
    }
  }

  void AddResult(int type, uint64_t width) {
    Value value;
    value.origin = Value::Origin::kResult;
    value.type = type;
    value.width = width;
    value.made_by = op_;
    values_.push_back(value);
  }

  // Checks the op's fields; the width of its result, 0 if that is unknown.
  uint64_t WidthOf(const v1::Program::Op& op) {
    switch (op.kind_case()) {
      case v1::Program::Op::kGemm:
        return WidthOf(op.gemm());
      case v1::Program::Op::kAdd:
        return WidthOf(op.add());
      case v1::Program::Op::kMul:
        return WidthOf(op.mul());
      case v1::Program::Op::kAct:
        Require(op.act().kind() >= 1 && op.act().kind() <= 6);
        return X(op.act().x()).width;
      case v1::Program::Op::kClamp:
        Require(op.clamp().low() <= op.clamp().high());
        return X(op.clamp().x()).width;
      case v1::Program::Op::kRmsNorm:
        return WidthOf(op.rms_norm());
      case v1::Program::Op::kLayerNorm:
        return WidthOf(op.layer_norm());
      case v1::Program::Op::kSlice:
        return WidthOf(op.slice());
      case v1::Program::Op::kConvert:
        return X(op.convert().x()).width;
      case v1::Program::Op::kTopK:
        return WidthOf(op.top_k());
      case v1::Program::Op::KIND_NOT_SET:
        Require(false);
    }
    return 0;
  }

  uint64_t WidthOf(const v1::Program::Gemm& gemm) {
    const Value x = X(gemm.x());
    Require(gemm.mode() >= 0 && gemm.mode() <= 3);
    const int rounding = gemm.rounding();
    Require(rounding == v1::NUMBER_TYPE_UNSPECIFIED ||
            rounding == v1::NUMBER_TYPE_FP16 ||
            rounding == v1::NUMBER_TYPE_BF16);
    const bool is_a16 = gemm.mode() <= v1::Program::Gemm::MODE_A16;
    // bf16 is what an unset one stands for.
    if (rounding == v1::NUMBER_TYPE_FP16) {
      Require(is_a16 && x.type == v1::NUMBER_TYPE_FP32);
    }
    Require(IsName(gemm.weights()) && !gemm.weights().empty());
    const auto found = weights_.find(KeyOf(gemm.weights()));
    if (found == weights_.end()) {
      if (IsName(gemm.weights()) && !gemm.weights().empty()) {
        faults_.insert(absl::StatusCode::kNotFound);
      }
      return 0;
    }
    const WeightsFacts& facts = found->second;
    RequireWidth(x, facts.k, facts.k);
    RequireOffered(gemm.mode() != v1::Program::Gemm::MODE_A8 || facts.is_q4_0);
    RequireOffered(gemm.mode() != v1::Program::Gemm::MODE_A32 ||
                   facts.has_whole_codes);
    return facts.n;
  }

  uint64_t WidthOf(const v1::Program::Binary& binary) {
    const Value x = X(binary.x());
    const Value* const y = Operand(binary.y());
    if (y != nullptr) RequireWidth(*y, x.width, 1);
    return x.width;
  }

  uint64_t WidthOf(const v1::Program::RmsNorm& norm) {
    const Value x = X(norm.x());
    RequireEps(norm.eps());
    const uint64_t run = norm.group() == 0 ? x.width : norm.group();
    if (x.width != 0) Require(x.width % run == 0);
    if (norm.has_weight()) NormConstant(norm.weight(), x.width, run);
    return x.width;
  }

  uint64_t WidthOf(const v1::Program::LayerNorm& norm) {
    const Value x = X(norm.x());
    RequireEps(norm.eps());
    if (norm.has_weight()) NormConstant(norm.weight(), x.width, x.width);
    if (norm.has_bias()) NormConstant(norm.bias(), x.width, x.width);
    return x.width;
  }

  uint64_t WidthOf(const v1::Program::Slice& slice) {
    const Value x = X(slice.x());
    Require(slice.width() >= 1);
    if (x.width == 0) return 0;
    Require(slice.begin() <= x.width &&
            slice.width() <= x.width - std::min(slice.begin(), x.width));
    return slice.width();
  }

  uint64_t WidthOf(const v1::Program::TopK& top_k) {
    const Value x = X(top_k.x());
    Require(top_k.k() >= 1 && top_k.k() <= kMaxTopK);
    if (x.width != 0) Require(top_k.k() <= x.width);
    return top_k.k();
  }

  void ReadOutputs() {
    for (const uint64_t number : program_.outputs()) {
      Require(number < values_.size());
      if (number >= values_.size()) continue;
      Value& value = values_[number];
      Require(value.origin == Value::Origin::kResult);
      Require(!value.is_output);
      value.is_output = true;
    }
  }

  void RequireUse(size_t number) {
    const Value& value = values_[number];
    if (value.is_used()) return;
    Require(value.is_one_of_two);
    if (!value.is_one_of_two) return;
    // The values stand before the ids.
    const bool is_first = value.type == v1::NUMBER_TYPE_FP32;
    Require(values_[is_first ? number + 1 : number - 1].is_used());
  }

  void RequireScratch() {
    for (int op = 0; op < program_.ops_size(); ++op) {
      uint64_t alive = 0;
      for (const Value& value : values_) {
        const bool is_scratch =
            value.origin == Value::Origin::kResult && !value.is_output;
        const int end = std::max(value.made_by, value.last_reader);
        if (is_scratch && value.made_by <= op && op <= end) {
          alive += value.row_bytes();
        }
      }
      Require(alive <= kMaxScratchRowBytes);
    }
  }

  const v1::Program& program_;
  const WeightsFactsByName& weights_;
  std::set<absl::StatusCode> faults_;
  std::vector<Value> values_;
  size_t values_before_op_ = 0;
  int op_ = 0;
};

}  // namespace

std::set<absl::StatusCode> ReasonsToRefuse(const v1::Program& program,
                                           const WeightsFactsByName& weights) {
  return Reader(program, weights).Read();
}

}  // namespace qgemm
