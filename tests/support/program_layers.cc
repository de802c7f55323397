// SPDX-License-Identifier: Apache-2.0
//
// The layers, each written as its formula reads.

#include "tests/support/program_layers.h"

#include <utility>

#include "base/check.h"
#include "base/sha256.h"

namespace qgemm {
namespace {

constexpr float kEps = 1e-5f;

// Inputs, constants and weights that all layers have, with the widths that they
// stand for.
class LayerDraft {
 public:
  LayerDraft(std::string name, const LayerShape& shape, const LayerTypes& types)
      : shape_(shape), types_(types), draft_(types.value) {
    worked_.name = std::move(name);
    a_ = draft_.Input(types.value, shape.q);
    x_ = draft_.Input(types.residual, shape.hidden);
  }

  ProgramDraft& draft() { return draft_; }
  ValueNumber a() const { return a_; }
  ValueNumber x() const { return x_; }

  ValueNumber Constant(const std::vector<float>& values) {
    return draft_.Constant(types_.value, values);
  }

  ValueNumber Gemm(ValueNumber x, const std::string& name, int64_t n,
                   int64_t k) {
    worked_.weights[name] = {n, k};
    return draft_.Gemm(x, name);
  }
  ValueNumber O(ValueNumber a) { return Gemm(a, "o", shape_.hidden, shape_.q); }
  ValueNumber Up(ValueNumber h, const std::string& name) {
    return Gemm(h, name, shape_.ffn, shape_.hidden);
  }
  ValueNumber Down(ValueNumber f) {
    return Gemm(f, "down", shape_.hidden, shape_.ffn);
  }

  // x + y in the residual's type.
  ValueNumber Residual(ValueNumber x, ValueNumber y) {
    const ValueNumber sum = draft_.Add(x, y);
    draft_.last().type = types_.residual;
    return sum;
  }

  // down(activation(gate(h)) * up(h))
  ValueNumber GatedFfn(ValueNumber h, Activation activation) {
    const ValueNumber gate = Up(h, "gate");
    const ValueNumber up = Up(h, "up");
    return Down(draft_.Mul(draft_.Act(gate, activation), up));
  }

  // The next layer's products of h.
  struct Qkv {
    ValueNumber q, k, v;
  };
  Qkv NextQkv(ValueNumber h) {
    const ValueNumber q = Gemm(h, "q", shape_.q, shape_.hidden);
    const ValueNumber k = Gemm(h, "k", shape_.kv, shape_.hidden);
    return {q, k, Gemm(h, "v", shape_.kv, shape_.hidden)};
  }

  WorkedProgram Finish(const std::vector<ValueNumber>& outputs) {
    worked_.program = draft_.Finish(outputs);
    return std::move(worked_);
  }

 private:
  const LayerShape shape_;
  const LayerTypes types_;
  ProgramDraft draft_;
  WorkedProgram worked_;
  ValueNumber a_ = kNoValue;
  ValueNumber x_ = kNoValue;
};

}  // namespace

ValueNumber ProgramDraft::Input(NumberType type, int64_t width) {
  CHECK(program_.constants.empty() && program_.ops.empty());
  program_.inputs.push_back({"", type, width});
  return next_++;
}

ValueNumber ProgramDraft::Constant(NumberType type,
                                   const std::vector<float>& values) {
  CHECK(program_.ops.empty());
  ProgramConstant constant;
  constant.type = type;
  constant.bytes.resize(values.size() * SizeOf(type));
  uint8_t* out = constant.bytes.data();
  for (const float value : values) {
    StoreFloat(FloatTypeOf(type), value, out);
    out += SizeOf(type);
  }
  program_.constants.push_back(std::move(constant));
  return next_++;
}

ValueNumber ProgramDraft::Append(OpKind kind, ValueNumber x) {
  ProgramOp op;
  op.kind = kind;
  op.type = kind == OpKind::kTopK ? NumberType::kFloat32 : type_;
  op.x = x;
  program_.ops.push_back(std::move(op));
  const ValueNumber result = next_;
  next_ += ResultCount(kind);
  return result;
}

ValueNumber ProgramDraft::Gemm(ValueNumber x, const std::string& weights) {
  const ValueNumber result = Append(OpKind::kGemm, x);
  last().weights = weights;
  return result;
}

ValueNumber ProgramDraft::Add(ValueNumber x, ValueNumber y) {
  const ValueNumber result = Append(OpKind::kAdd, x);
  last().y = y;
  return result;
}

ValueNumber ProgramDraft::Mul(ValueNumber x, ValueNumber y) {
  const ValueNumber result = Append(OpKind::kMul, x);
  last().y = y;
  return result;
}

ValueNumber ProgramDraft::Act(ValueNumber x, Activation activation) {
  const ValueNumber result = Append(OpKind::kAct, x);
  last().activation = activation;
  return result;
}

ValueNumber ProgramDraft::RmsNorm(ValueNumber x, ValueNumber weight,
                                  int64_t group) {
  const ValueNumber result = Append(OpKind::kRmsNorm, x);
  last().norm_weight = weight;
  last().eps = kEps;
  last().group = group;
  return result;
}

ValueNumber ProgramDraft::LayerNorm(ValueNumber x, ValueNumber weight,
                                    ValueNumber bias) {
  const ValueNumber result = Append(OpKind::kLayerNorm, x);
  last().norm_weight = weight;
  last().norm_bias = bias;
  last().eps = kEps;
  return result;
}

ValueNumber ProgramDraft::TopK(ValueNumber x, int64_t k) {
  const ValueNumber result = Append(OpKind::kTopK, x);
  last().top_k = k;
  return result;
}

ValueNumber ProgramDraft::Clamp(ValueNumber x, float low, float high) {
  const ValueNumber result = Append(OpKind::kClamp, x);
  last().low = low;
  last().high = high;
  return result;
}

ValueNumber ProgramDraft::Slice(ValueNumber x, int64_t begin, int64_t width) {
  const ValueNumber result = Append(OpKind::kSlice, x);
  last().begin = begin;
  last().width = width;
  return result;
}

ValueNumber ProgramDraft::Convert(ValueNumber x, NumberType type) {
  const ValueNumber result = Append(OpKind::kConvert, x);
  last().type = type;
  return result;
}

Program ProgramDraft::Finish(const std::vector<ValueNumber>& outputs) {
  program_.outputs = outputs;
  return std::move(program_);
}

std::vector<float> Ones(int64_t width) {
  return std::vector<float>(width, 1.0f);
}

std::vector<float> Slopes(int64_t width) {
  std::vector<float> values(width);
  for (int64_t j = 0; j < width; ++j) {
    values[j] = 0.5f + static_cast<float>(j) / static_cast<float>(width);
  }
  return values;
}

WorkedProgram LlamaLayer(const LayerShape& shape, const LayerTypes& types,
                         NormWeights norm_weights) {
  LayerDraft layer("llama", shape, types);
  const ValueNumber ffn_norm = layer.Constant(norm_weights(shape.hidden));
  const ValueNumber next_norm = layer.Constant(norm_weights(shape.hidden));
  ProgramDraft& draft = layer.draft();
  const ValueNumber r = layer.Residual(layer.x(), layer.O(layer.a()));
  const ValueNumber h = draft.RmsNorm(r, ffn_norm);
  const ValueNumber f = layer.GatedFfn(h, Activation::kSilu);
  const ValueNumber x = layer.Residual(r, f);
  const auto qkv = layer.NextQkv(draft.RmsNorm(x, next_norm));
  return layer.Finish({x, qkv.q, qkv.k, qkv.v});
}

WorkedProgram Qwen3Layer(const LayerShape& shape, const LayerTypes& types) {
  LayerDraft layer("qwen3", shape, types);
  const ValueNumber ffn_norm = layer.Constant(Slopes(shape.hidden));
  const ValueNumber next_norm = layer.Constant(Slopes(shape.hidden));
  const ValueNumber q_norm = layer.Constant(Slopes(shape.head));
  const ValueNumber k_norm = layer.Constant(Slopes(shape.head));
  ProgramDraft& draft = layer.draft();
  const ValueNumber r = layer.Residual(layer.x(), layer.O(layer.a()));
  const ValueNumber h = draft.RmsNorm(r, ffn_norm);
  const ValueNumber f = layer.GatedFfn(h, Activation::kSilu);
  const ValueNumber x = layer.Residual(r, f);
  const auto qkv = layer.NextQkv(draft.RmsNorm(x, next_norm));
  const ValueNumber q = draft.RmsNorm(qkv.q, q_norm, shape.head);
  const ValueNumber k = draft.RmsNorm(qkv.k, k_norm, shape.head);
  return layer.Finish({x, q, k, qkv.v});
}

WorkedProgram GemmaLayer(const LayerShape& shape, const LayerTypes& types) {
  LayerDraft layer("gemma", shape, types);
  std::vector<float> one_plus_w = Slopes(shape.hidden);
  for (float& value : one_plus_w) value += 1;
  const ValueNumber attention_norm = layer.Constant(one_plus_w);
  const ValueNumber ffn_norm = layer.Constant(one_plus_w);
  const ValueNumber after_ffn_norm = layer.Constant(one_plus_w);
  const ValueNumber next_norm = layer.Constant(one_plus_w);
  ProgramDraft& draft = layer.draft();
  const ValueNumber o = draft.RmsNorm(layer.O(layer.a()), attention_norm);
  const ValueNumber r = layer.Residual(layer.x(), o);
  const ValueNumber h = draft.RmsNorm(r, ffn_norm);
  const ValueNumber f = layer.GatedFfn(h, Activation::kGeluTanh);
  const ValueNumber x = layer.Residual(r, draft.RmsNorm(f, after_ffn_norm));
  const auto qkv = layer.NextQkv(draft.RmsNorm(x, next_norm));
  return layer.Finish({x, qkv.q, qkv.k, qkv.v});
}

WorkedProgram BertLayer(const LayerShape& shape, const LayerTypes& types) {
  LayerDraft layer("bert", shape, types);
  const ValueNumber weight = layer.Constant(Slopes(shape.hidden));
  const ValueNumber bias = layer.Constant(Slopes(shape.hidden));
  ProgramDraft& draft = layer.draft();
  const ValueNumber attended = layer.Residual(layer.x(), layer.O(layer.a()));
  const ValueNumber r = draft.LayerNorm(attended, weight, bias);
  draft.last().type = types.residual;
  const ValueNumber up = layer.Up(r, "up");
  const ValueNumber f = layer.Down(draft.Act(up, Activation::kGeluErf));
  const ValueNumber x = draft.LayerNorm(layer.Residual(r, f), weight, bias);
  draft.last().type = types.residual;
  const auto qkv = layer.NextQkv(x);
  return layer.Finish({x, qkv.q, qkv.k, qkv.v});
}

WorkedProgram Head(const LayerShape& shape, const LayerTypes& types) {
  WorkedProgram worked;
  worked.name = "head";
  worked.weights["head"] = {shape.ffn, shape.hidden};
  ProgramDraft draft(types.value);
  const ValueNumber x = draft.Input(types.residual, shape.hidden);
  const ValueNumber norm = draft.Constant(types.value, Slopes(shape.hidden));
  const ValueNumber logits = draft.Gemm(draft.RmsNorm(x, norm), "head");
  draft.last().type = NumberType::kFloat32;
  const ValueNumber best = draft.TopK(logits, 8);
  worked.program = draft.Finish({best, best + 1});
  return worked;
}

WorkedProgram EveryOp() {
  WorkedProgram worked;
  worked.name = "every_op";
  worked.weights = {{"up", {16, 8}}, {"down", {8, 16}}};
  ProgramDraft draft(NumberType::kFloat32);
  const ValueNumber a = draft.Input(NumberType::kFloat16, 8);
  const ValueNumber x = draft.Input(NumberType::kFloat32, 8);
  const ValueNumber weight = draft.Constant(NumberType::kFloat32, Slopes(8));
  const ValueNumber bias = draft.Constant(NumberType::kBFloat16, Ones(8));
  const ValueNumber up = draft.Gemm(a, "up");
  const ValueNumber gated = draft.Mul(draft.Act(up, Activation::kSilu), up);
  const ValueNumber sum = draft.Add(x, draft.Gemm(gated, "down"));
  const ValueNumber runs = draft.RmsNorm(sum, weight, 4);
  const ValueNumber norm = draft.LayerNorm(runs, weight, bias);
  const ValueNumber clamped = draft.Clamp(norm, -1, 1);
  const ValueNumber columns = draft.Slice(clamped, 2, 4);
  const ValueNumber half = draft.Convert(columns, NumberType::kFloat16);
  const ValueNumber best = draft.TopK(clamped, 3);
  worked.program = draft.Finish({half, best, best + 1});
  return worked;
}

std::vector<WorkedProgram> WorkedPrograms(const LayerShape& shape,
                                          const LayerTypes& types) {
  return {LlamaLayer(shape, types), Qwen3Layer(shape, types),
          GemmaLayer(shape, types), BertLayer(shape, types),
          Head(shape, types),       EveryOp()};
}

std::string WeightsIdOf(const std::string& name) {
  Sha256 hash;
  hash.Update(name);
  return ToHex(hash.Finish());
}

ProgramWeightsMap ShapesOf(const WorkedProgram& worked) {
  ProgramWeightsMap shapes;
  for (const auto& [name, extents] : worked.weights) {
    ProgramWeights& weights = shapes[name];
    weights.id = WeightsIdOf(name);
    weights.shape.dense = true;
    weights.shape.n = extents.first;
    weights.shape.k = extents.second;
  }
  return shapes;
}

LoadedProgram RandomWeightsOf(const WorkedProgram& worked,
                              const WeightsRecipe& recipe,
                              RandomGenerator* random) {
  LoadedProgram loaded;
  for (const auto& [name, extents] : worked.weights) {
    const CanonicalWeights& weights =
        loaded.weights
            .emplace(name, RandomWeights(recipe, extents.first, extents.second,
                                         random))
            .first->second;
    loaded.shapes[name] = {WeightsIdOf(name), weights.header()};
  }
  return loaded;
}

std::vector<const CanonicalWeights*> LoadedProgram::In(
    const CheckedProgram& program) const {
  std::vector<const CanonicalWeights*> ordered;
  for (const std::string& id : program.weights_ids()) {
    for (const auto& [name, resident] : shapes) {
      if (resident.id == id) {
        ordered.push_back(&weights.at(name));
        break;
      }
    }
  }
  return ordered;
}

}  // namespace qgemm
