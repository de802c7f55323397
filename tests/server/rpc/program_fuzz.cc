// SPDX-License-Identifier: Apache-2.0
//
// A libFuzzer target: worked and random programs, mutated as messages and as
// bytes, go the way of LoadProgram, on the CPU backend. What it takes and
// refuses is what the documents say (program_legality.h); what it takes runs on
// the reference and, a share of it, on the CPU backend, whose every op is
// judged. tools/fuzz.sh runs it.

#include <cstdint>
#include <cstdio>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "client/program_wire.h"
#include "kernels/backends/backends.h"
#include "kernels/matrix/canonical_weights.h"
#include "kernels/programs/checked_program.h"
#include "rpc/message_limits.h"
#include "server/programs/program_store.h"
#include "server/rpc/queries.h"
#include "server/rpc/upload_message.h"
#include "server/weights/weight_store.h"
#include "tests/conformance/batch_run.h"
#include "tests/rpc/payload_differential.h"
#include "tests/server/rpc/program_legality.h"
#include "tests/server/rpc/program_mutations.h"
#include "tests/server/rpc/program_trial.h"
#include "tests/support/program_layers.h"
#include "tests/support/random_program.h"

namespace qgemm {
namespace {

constexpr LayerShape kShape = {64, 64, 32, 32, 96};
constexpr int64_t kWidths[] = {64, 32, 96, 64, 1, 4, 16, 7};
constexpr int64_t kWideWidths[] = {1 << 20, 1 << 19, 1 << 18, 1 << 16, 1};
// More elements than that in a row of all values are not computed.
constexpr int64_t kMaxElements = 1 << 14;

// A kind of weights as recipes, stores and documents have it.
struct WeightsKind {
  const char* recipe;
  WeightsSpec spec;
  bool is_q4_0;
  bool has_whole_codes;
};

WeightsSpec SpecOf(WireFormat format) {
  WeightsSpec spec;
  spec.format = format;
  return spec;
}

// One for each of the worked programs.
std::vector<WeightsKind> WeightsKinds() {
  WeightsSpec kbit4 = SpecOf(WireFormat::kKbit);
  kbit4.bits = 4;
  WeightsSpec int4 = SpecOf(WireFormat::kInt4);
  int4.group_size = 32;
  WeightsSpec biased = SpecOf(WireFormat::kDense);
  biased.has_bias = true;
  return {{"kbit4", kbit4, false, false},
          {"q4_0", SpecOf(WireFormat::kQ4_0), true, true},
          {"ternary", SpecOf(WireFormat::kTernary), false, true},
          {"dense_bf16_bias", biased, false, false},
          {"int4_g32_fp16", int4, false, true},
          {"dense_fp16", SpecOf(WireFormat::kDense), false, false}};
}

std::unique_ptr<Backend> CpuBackend() {
  BackendOptions options;
  options.kind = BackendKind::kCpu;
  options.cpu.threads = 2;
  absl::StatusOr<std::unique_ptr<Backend>> backend = CreateBackend(options);
  CHECK_OK(backend.status());
  return *std::move(backend);
}

// Programs that went each way; printed at the end of the process.
struct Tally {
  ~Tally() {
    std::fprintf(
        stderr,
        "programs: %lld, of which %lld taken, %lld run by the "
        "reference and %lld by the cpu backend\n",
        static_cast<long long>(programs), static_cast<long long>(taken),
        static_cast<long long>(interpreted), static_cast<long long>(executed));
  }

  int64_t programs = 0;
  int64_t taken = 0;
  int64_t interpreted = 0;
  int64_t executed = 0;
};

// A server's stores and backend with the weights of all worked programs.
class World {
 public:
  World() {
    const std::vector<WeightsKind> kinds = WeightsKinds();
    std::vector<WorkedProgram> all = WorkedPrograms(kShape, {});
    CHECK_EQ(all.size(), kinds.size());
    for (size_t i = 0; i < all.size(); ++i) AddWorked(kinds[i], &all[i]);
    held_bytes_ = weights_.reserved_bytes();
  }

  // Takes a message's bytes as LoadProgram does, and judges what comes of it.
  void Take(const std::string& bytes, FuzzInput* input);

  // A worked program, or another; most are legal.
  Program Draw(FuzzInput* input) const {
    switch (input->Below(8)) {
      case 0:
        return RandomProgram({kWideWidths, &shapes_, 24}, input);
      case 1:
      case 2:
      case 3:
        return RandomProgram({kWidths, &shapes_, 16}, input);
      case 4:
        return RandomProgram({kWidths, &shapes_, 56}, input);
      default:
        return input->Element(worked_);
    }
  }

  const std::vector<std::string>& words() const { return words_; }

 private:
  void AddWorked(const WeightsKind& kind, WorkedProgram* worked);
  void AddWeights(const WeightsKind& kind, const std::string& name,
                  CanonicalWeights weights);
  std::set<absl::StatusCode> Expected(const std::string& bytes) const;
  void Judge(const ResidentProgram& program, FuzzInput* input);

  RandomGenerator random_{1};
  const std::unique_ptr<Backend> backend_ = CpuBackend();
  WeightStore weights_{StoreLimits()};
  ProgramStore programs_{ProgramStoreLimits(), &weights_};
  const ProgramQueries queries_{backend_.get(), &weights_, &programs_,
                                kDefaultMaxMessageBytes};
  std::vector<Program> worked_;
  CanonicalWeightsById canonical_;
  ProgramWeightsMap shapes_;  // by name and id
  WeightsFactsByName facts_;
  std::vector<std::string> words_ = {"unknown", "a b"};
  int64_t held_bytes_ = 0;
  Tally tally_;
};

// Names of weights are behind that of the program, since shapes differ.
void World::AddWorked(const WeightsKind& kind, WorkedProgram* worked) {
  for (const auto& [name, extents] : worked->weights) {
    AddWeights(kind, worked->name + "/" + name,
               RandomWeights(WeightsRecipeNamed(kind.recipe), extents.first,
                             extents.second, &random_));
  }
  for (ProgramOp& op : worked->program.ops) {
    if (op.kind == OpKind::kGemm) op.weights = worked->name + "/" + op.weights;
  }
  worked_.push_back(std::move(worked->program));
}

void World::AddWeights(const WeightsKind& kind, const std::string& name,
                       CanonicalWeights weights) {
  Weights layer;
  layer.id = WeightsIdOf(name);
  layer.spec = kind.spec;
  layer.spec.n = weights.header().n;
  layer.spec.k = weights.header().k;
  layer.resident = LoadWhole(backend_.get(), weights);
  facts_[name] = {static_cast<uint64_t>(layer.spec.n),
                  static_cast<uint64_t>(layer.spec.k), kind.is_q4_0,
                  kind.has_whole_codes};
  facts_[layer.id] = facts_[name];
  shapes_[name] = {layer.id, ShapeOf(layer.spec)};
  shapes_[layer.id] = shapes_[name];
  words_.insert(words_.end(), {name, layer.id});
  canonical_[layer.id] = std::move(weights);
  CHECK_OK(weights_
               .Commit(kAnybody, std::move(layer),
                       *weights_.Reserve(kAnybody, 0),
                       {name, /*create_only=*/true, ""})
               .status());
}

// Larger messages than 64 KiB are those of MutateProgram, where each constant
// has one field of values.
std::set<absl::StatusCode> World::Expected(const std::string& bytes) const {
  v1::LoadProgramRequest request;
  if (!request.ParseFromString(bytes)) {
    return {absl::StatusCode::kInvalidArgument};
  }
  size_t constants = 0;
  for (const auto& constant : request.program().constants()) {
    constants += constant.values().size();
  }
  std::set<absl::StatusCode> reasons =
      ReasonsToRefuse(request.program(), facts_);
  if (bytes.size() > constants + (64 << 10)) {
    reasons.insert(absl::StatusCode::kInvalidArgument);
  }
  return reasons;
}

void World::Take(const std::string& bytes, FuzzInput* input) {
  grpc::ByteBuffer buffer = Sliced(bytes, {});
  v1::LoadProgramRequest request;
  v1::LoadProgramResponse response;
  absl::Status status = ReadProgramMessage(&buffer, &request);
  // Names of programs are another matter.
  request.clear_name();
  request.clear_create_only();
  request.clear_if_match();
  if (status.ok()) status = queries_.Load(kAnybody, request, &response);
  const std::set<absl::StatusCode> reasons = Expected(bytes);
  ++tally_.programs;
  if (!status.ok()) {
    CHECK(reasons.count(status.code()) == 1)
        << status << "; the documents have " << reasons.size()
        << " other reasons to refuse\n"
        << request.ShortDebugString();
  } else {
    CHECK(reasons.empty()) << "was taken, in spite of "
                           << absl::StatusCodeToString(*reasons.begin()) << "\n"
                           << request.ShortDebugString();
    ++tally_.taken;
    const std::string id = response.program().id();
    Judge(*programs_.Get(kAnybody, id)->record, input);
    CHECK_OK(programs_.Unload(kAnybody, id).status());
  }
  CHECK_EQ(programs_.program_count(kAnybody), 0);
  CHECK_EQ(weights_.reserved_bytes(), held_bytes_);
}

void World::Judge(const ResidentProgram& resident, FuzzInput* input) {
  int64_t elements = 0;
  for (const ProgramValue& value : resident.compiled->program().values()) {
    elements += value.width;
  }
  if (elements > kMaxElements) return;
  const ProgramTrial trial(backend_.get(), &canonical_, resident.compiled,
                           1 + input->Below(3));
  trial.Interpret();
  ++tally_.interpreted;
  if (!input->OneIn(4)) return;
  trial.Execute();
  ++tally_.executed;
}

// Bytes of small messages may be any; larger ones are as Protobuf writes them.
std::string BytesOf(const v1::Program& program, FuzzInput* input) {
  constexpr size_t kMaxEdited = 4096;
  v1::LoadProgramRequest request;
  *request.mutable_program() = program;
  std::string bytes = request.SerializeAsString();
  if (bytes.size() > kMaxEdited || bytes.empty()) return bytes;
  for (uint32_t edits = input->OneIn(8) ? input->Below(4) : 0; edits > 0;
       --edits) {
    const size_t at = (256 * input->Byte() + input->Byte()) % bytes.size();
    bytes[at] = static_cast<char>(input->Byte());
  }
  if (input->OneIn(32)) bytes.resize(input->Byte() * bytes.size() / 256);
  return bytes;
}

}  // namespace
}  // namespace qgemm

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static qgemm::World world;
  qgemm::FuzzInput input(data, size);
  qgemm::v1::Program program = qgemm::ToWire(world.Draw(&input));
  for (uint32_t edits = input.Below(4); edits > 0; --edits) {
    qgemm::MutateProgram(world.words(), &input, &program);
  }
  world.Take(qgemm::BytesOf(program, &input), &input);
  return 0;
}
