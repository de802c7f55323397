// SPDX-License-Identifier: Apache-2.0
//
// Names, budget, limits and leases of programs. More of names, conditions and
// pages is in weight_store_test.cc: both stores have them from named_store.h.

#include "server/programs/program_store.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/metrics/metrics_text.h"
#include "tests/server/programs/counted_program.h"
#include "tests/server/weights/counted_weights.h"

namespace qgemm {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Optional;

constexpr int64_t kProgramBytes = 1000;
constexpr int64_t kLayerBytes = 5000;
constexpr int64_t kBudgetBytes = 100000;
constexpr int64_t kNamedProgramBytes = kProgramBytes + kNameRecordBytes;

std::string Id(int64_t number) { return absl::StrFormat("%064x", number); }

NameBinding Named(const std::string& name) { return {name, false, ""}; }

class ProgramStoreTest : public testing::Test {
 protected:
  absl::StatusOr<std::shared_ptr<const ResidentProgram>> TryCommit(
      int64_t number, const NameBinding& binding) {
    return TryCommit(
        number, binding,
        std::make_shared<CountedProgram>(silu_, WeightsOfProgram(), 0, &live_));
  }

  absl::StatusOr<std::shared_ptr<const ResidentProgram>> TryCommit(
      int64_t number, const NameBinding& binding,
      std::shared_ptr<const CompiledProgram> compiled) {
    auto reservation = weights_->Reserve(kAnybody, kProgramBytes);
    EXPECT_TRUE(reservation.ok()) << reservation.status();
    ResidentProgram program;
    program.id = Id(number);
    program.text = absl::StrCat("text ", number);
    program.compiled = std::move(compiled);
    return programs_->Commit(kAnybody, std::move(program),
                             *std::move(reservation), binding);
  }

  // Commits program `number`.
  std::shared_ptr<const ResidentProgram> Commit(int64_t number,
                                                const std::string& name) {
    auto held = TryCommit(number, Named(name));
    EXPECT_TRUE(held.ok()) << held.status();
    return *held;
  }

  // Loads a layer of width 4 under a name.
  std::shared_ptr<const Weights> LoadLayer(const std::string& name) {
    auto reservation = weights_->Reserve(kAnybody, kLayerBytes);
    EXPECT_TRUE(reservation.ok()) << reservation.status();
    Weights layer;
    layer.id = Id(0xabc);
    layer.resident =
        std::make_shared<CountedWeights>(4, kLayerBytes, &live_layers_);
    return *weights_->Commit(kAnybody, std::move(layer),
                             *std::move(reservation), Named(name));
  }

  // Commits a program of one product with the layer.
  std::shared_ptr<const ResidentProgram> CommitGemm(
      int64_t number, const std::string& name,
      const std::shared_ptr<const Weights>& layer) {
    ProgramWeights shape;
    shape.id = layer->id;
    shape.shape.dense = true;
    shape.shape.n = shape.shape.k = 4;
    auto held =
        TryCommit(number, Named(name),
                  std::make_shared<CountedProgram>(
                      Checked(GemmProgram("layer", 4), {{"layer", shape}}),
                      WeightsOfProgram{layer->resident}, 0, &live_));
    EXPECT_TRUE(held.ok()) << held.status();
    return *held;
  }

  void Limit(int64_t programs, int64_t names) {
    programs_ = std::make_unique<ProgramStore>(
        ProgramStoreLimits{programs, names}, weights_.get(), &metrics_);
  }

  std::string IdOf(const std::string& name_or_id) {
    const auto found = programs_->Find(kAnybody, name_or_id);
    return found.ok() ? (*found)->id : found.status().ToString();
  }

  std::atomic<int64_t> live_{0};
  std::atomic<int64_t> live_layers_{0};
  const std::shared_ptr<const CheckedProgram> silu_ = Checked(SiluProgram(8));
  ServerMetrics metrics_;
  std::unique_ptr<WeightStore> weights_ =
      std::make_unique<WeightStore>(StoreLimits{kBudgetBytes}, &metrics_);
  std::unique_ptr<ProgramStore> programs_ = std::make_unique<ProgramStore>(
      ProgramStoreLimits(), weights_.get(), &metrics_);
};

TEST_F(ProgramStoreTest, FindsByNameAndId) {
  const auto committed = Commit(0xabc, "layer/1");
  EXPECT_EQ(*programs_->Find(kAnybody, "layer/1"), committed);
  EXPECT_EQ(*programs_->Find(kAnybody, Id(0xabc)), committed);
  EXPECT_EQ(committed->reserved_bytes, kProgramBytes);
}

TEST_F(ProgramStoreTest, UnknownProgramErrorNamesWhatWasAsked) {
  const absl::Status unknown = programs_->Find(kAnybody, "nobody").status();
  EXPECT_EQ(unknown.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(unknown.message(),
            "program \"nobody\": no such name on this server");
  EXPECT_EQ(programs_->Get(kAnybody, "nobody").status(), unknown);
  EXPECT_EQ(programs_->Unload(kAnybody, "nobody").status(), unknown);
  EXPECT_EQ(*programs_->BindIfHeld(kAnybody, Id(1), Named("x")), nullptr);
}

TEST_F(ProgramStoreTest, NamesOfWeightsAreOthers) {
  LoadLayer("a");
  EXPECT_FALSE(programs_->Find(kAnybody, "a").ok());
  Commit(1, "a");
  EXPECT_EQ((*weights_->Find(kAnybody, "a"))->id, Id(0xabc));
  EXPECT_EQ(IdOf("a"), Id(1));
}

TEST_F(ProgramStoreTest, SecondCommitOfAnIdKeepsTheFirst) {
  const auto first = Commit(1, "a");
  EXPECT_EQ(Commit(1, "b"), first);
  EXPECT_EQ(live_, 1);
  EXPECT_EQ(weights_->reserved_bytes(), kProgramBytes + 2 * kNameRecordBytes);
}

TEST_F(ProgramStoreTest, ProgramsAndNamesTakeOfTheBudgetAndGiveBack) {
  Commit(1, "a");
  EXPECT_EQ(weights_->reserved_bytes(), kNamedProgramBytes);
  EXPECT_TRUE(programs_->BindIfHeld(kAnybody, Id(1), Named("b")).ok());
  EXPECT_EQ(weights_->reserved_bytes(), kNamedProgramBytes + kNameRecordBytes);
  EXPECT_FALSE(programs_->Unload(kAnybody, "b").value());
  EXPECT_EQ(weights_->reserved_bytes(), kNamedProgramBytes);
  EXPECT_TRUE(programs_->Unload(kAnybody, Id(1)).value());
  EXPECT_EQ(weights_->reserved_bytes(), 0);
  EXPECT_EQ(live_, 0);
}

TEST_F(ProgramStoreTest, ANameBeyondTheBudgetIsRefusedAndChangesNothing) {
  Commit(1, "a");
  auto others =
      weights_->Reserve(kAnybody, kBudgetBytes - weights_->reserved_bytes());
  EXPECT_EQ(programs_->BindIfHeld(kAnybody, Id(1), Named("b")).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_FALSE(programs_->Find(kAnybody, "b").ok());
  EXPECT_EQ(programs_->Get(kAnybody, Id(1))->name_count, 1);
}

TEST_F(ProgramStoreTest, RefusesProgramsBeyondTheLimit) {
  Limit(/*programs=*/2, /*names=*/10);
  Commit(1, "a");
  Commit(2, "");
  const absl::Status refused = TryCommit(3, Named("c")).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(refused.message(),
            "2 programs are held, which is the limit (--max_programs); unload "
            "some or raise it");
  EXPECT_EQ(programs_->CheckCommit(kAnybody, Named("c"), Id(3)), refused);
  EXPECT_FALSE(programs_->Find(kAnybody, "c").ok());
  EXPECT_EQ(live_, 2);
  EXPECT_EQ(weights_->reserved_bytes(), 2 * kProgramBytes + kNameRecordBytes);
  // A program that replaces another fits.
  Commit(3, "a");
  EXPECT_EQ(IdOf("a"), Id(3));
}

TEST_F(ProgramStoreTest, RefusesNamesBeyondTheLimit) {
  Limit(/*programs=*/10, /*names=*/1);
  Commit(1, "a");
  const absl::Status refused =
      programs_->BindIfHeld(kAnybody, Id(1), Named("b")).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(refused.message(), HasSubstr("--max_program_names"));
  EXPECT_EQ(TryCommit(2, Named("b")).status(), refused);
  EXPECT_EQ(live_, 1);
}

TEST_F(ProgramStoreTest, ConditionsOnANameAreThoseOfWeights) {
  Commit(1, "a");
  const absl::Status exists =
      TryCommit(2, NameBinding{"a", /*create_only=*/true, ""}).status();
  EXPECT_EQ(exists.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(exists.message(), HasSubstr("is bound to program " + Id(1)));
  const absl::Status differs =
      TryCommit(2, NameBinding{"a", false, Id(9)}).status();
  EXPECT_EQ(differs.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(programs_->CheckCommit(kAnybody, {"a", false, Id(9)}, Id(2)),
            differs);
  EXPECT_EQ(IdOf("a"), Id(1));
  EXPECT_EQ(live_, 1);
  EXPECT_EQ(weights_->reserved_bytes(), kNamedProgramBytes);
  EXPECT_TRUE(TryCommit(2, NameBinding{"a", false, Id(1)}).ok());
  EXPECT_EQ(IdOf("a"), Id(2));
  EXPECT_EQ(programs_->Unload(kAnybody, "a", Id(1)).status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(programs_->Unload(kAnybody, "a", Id(2)).value());
}

TEST_F(ProgramStoreTest, ListsByFirstNameThenIdNamelessLast) {
  Commit(3, "");
  Commit(2, "b");
  Commit(1, "a");
  EXPECT_EQ(programs_->program_count(kAnybody), 3);
  const ProgramsPage first = programs_->List(kAnybody, "", 2);
  ASSERT_EQ(first.entries.size(), 2u);
  EXPECT_EQ(first.entries[0].named.record->id, Id(1));
  EXPECT_THAT(first.entries[1].named.names, ElementsAre("b"));
  EXPECT_FALSE(first.is_last);
  const ProgramsPage last =
      programs_->List(kAnybody, first.entries[1].place, 2);
  ASSERT_EQ(last.entries.size(), 1u);
  EXPECT_EQ(last.entries[0].named.record->id, Id(3));
  EXPECT_THAT(last.entries[0].named.names, IsEmpty());
  EXPECT_TRUE(last.is_last);
}

TEST_F(ProgramStoreTest, AProgramKeepsItsWeightsWhateverBecomesOfTheirName) {
  CommitGemm(1, "program", LoadLayer("layer"));
  EXPECT_TRUE(weights_->Unload(kAnybody, "layer").value());
  EXPECT_FALSE(weights_->Find(kAnybody, Id(0xabc)).ok());
  EXPECT_EQ(live_layers_, 1);
  EXPECT_EQ(weights_->reserved_bytes(), kNamedProgramBytes + kLayerBytes);
  EXPECT_EQ(
      (*programs_->Find(kAnybody, "program"))->compiled->weights()[0]->n(), 4);
  EXPECT_TRUE(programs_->Unload(kAnybody, "program").value());
  EXPECT_EQ(live_layers_, 0);
  EXPECT_EQ(weights_->reserved_bytes(), 0);
}

TEST_F(ProgramStoreTest, WhoHoldsAProgramHoldsItsWeights) {
  Principal client;
  client.client_id = "a";
  client.names = {"a/"};
  const auto held_bytes = [&] { return weights_->used_bytes(&client); };
  const auto layer = LoadLayer("layer");
  const int64_t layer_bytes = kLayerBytes + kLayerRecordBytes;
  ASSERT_TRUE(weights_->BindIfHeld(kAnybody, layer->id, Named("a/y")).ok());
  ResidentProgram program;
  program.id = Id(1);
  program.compiled = CommitGemm(1, "program", layer)->compiled;
  ASSERT_TRUE(
      programs_
          ->Commit(&client, std::move(program), ByteReservation(), Named("a/p"))
          .ok());
  EXPECT_EQ(held_bytes(), kProgramBytes + layer_bytes);
  // A name of the layer adds nothing, and takes nothing with it.
  ASSERT_TRUE(weights_->BindIfHeld(&client, layer->id, Named("a/x")).ok());
  EXPECT_EQ(held_bytes(), kProgramBytes + layer_bytes);
  ASSERT_TRUE(weights_->Unload(&client, "a/x").ok());
  EXPECT_EQ(held_bytes(), kProgramBytes + layer_bytes);
  EXPECT_TRUE(programs_->Unload(&client, "a/p").ok());
  EXPECT_EQ(held_bytes(), 0);
}

TEST_F(ProgramStoreTest, WeightsStayForOthersWhenAProgramGoes) {
  CommitGemm(1, "program", LoadLayer("layer"));
  EXPECT_TRUE(programs_->Unload(kAnybody, "program").value());
  EXPECT_EQ(live_layers_, 1);
  EXPECT_TRUE(weights_->Find(kAnybody, "layer").ok());
}

TEST_F(ProgramStoreTest, LeaseKeepsMemoryAndBudgetAfterUnload) {
  auto lease = CommitGemm(1, "program", LoadLayer("layer"))->compiled;
  EXPECT_TRUE(programs_->Unload(kAnybody, "program").value());
  EXPECT_TRUE(weights_->Unload(kAnybody, "layer").value());
  EXPECT_EQ(live_, 1);
  EXPECT_EQ(weights_->reserved_bytes(), kProgramBytes + kLayerBytes);
  lease.reset();
  EXPECT_EQ(live_, 0);
  EXPECT_EQ(live_layers_, 0);
  EXPECT_EQ(weights_->reserved_bytes(), 0);
}

TEST_F(ProgramStoreTest, LeaseOutlivesTheStores) {
  auto lease = CommitGemm(1, "program", LoadLayer("layer"))->compiled;
  programs_.reset();
  weights_.reset();
  EXPECT_EQ(lease->weights()[0]->n(), 4);
  lease.reset();
  EXPECT_EQ(live_, 0);
  EXPECT_EQ(live_layers_, 0);
}

TEST_F(ProgramStoreTest, MetricsFollowProgramsAndNames) {
  Commit(1, "a");
  Commit(1, "b");
  Commit(2, "c");
  EXPECT_THAT(MetricValue(metrics_, "qgemm_programs"), Optional(2.0));
  EXPECT_THAT(MetricValue(metrics_, "qgemm_program_names"), Optional(3.0));
  EXPECT_THAT(MetricValue(metrics_, "qgemm_weights_bytes"),
              Optional(1.0 * weights_->reserved_bytes()));
  programs_->Unload(kAnybody, Id(1)).value();
  EXPECT_THAT(MetricValue(metrics_, "qgemm_programs"), Optional(1.0));
  EXPECT_THAT(MetricValue(metrics_, "qgemm_program_names"), Optional(1.0));
}

TEST_F(ProgramStoreTest, ReadersSeeTheOldProgramOrTheNewWhileANameIsRebound) {
  constexpr int64_t kRebindings = 2000;
  Commit(1, "a");
  std::atomic<bool> stop{false};
  std::vector<std::thread> readers;
  for (int t = 0; t < 3; ++t) {
    readers.emplace_back([this, &stop] {
      std::string last;
      while (!stop) {
        const auto found = programs_->Find(kAnybody, "a");
        if (!found.ok()) {
          ADD_FAILURE() << found.status();
          return;
        }
        EXPECT_GE((*found)->id, last);
        last = (*found)->id;
      }
    });
  }
  for (int64_t number = 2; number <= kRebindings; ++number) {
    // Readers may still lease some before it, as far as the budget allows.
    while (weights_->reserved_bytes() > kBudgetBytes / 2) {
      std::this_thread::yield();
    }
    Commit(number, "a");
  }
  stop = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(live_, 1);
  EXPECT_EQ(weights_->reserved_bytes(), kNamedProgramBytes);
}

TEST_F(ProgramStoreTest, ManyThreadsLoadAndUnloadTheSamePrograms) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([this, t] {
      for (int64_t i = 0; i < 500; ++i) {
        Commit(i % 3, absl::StrCat(t));
        // The name is this thread's; another may have dropped the program.
        programs_->Unload(kAnybody, i % 2 == 0 ? absl::StrCat(t) : Id(i % 3))
            .IgnoreError();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int64_t number = 0; number < 3; ++number) {
    programs_->Unload(kAnybody, Id(number)).IgnoreError();
  }
  EXPECT_EQ(programs_->program_count(kAnybody), 0);
  EXPECT_EQ(live_, 0);
  EXPECT_EQ(weights_->reserved_bytes(), 0);
}

}  // namespace
}  // namespace qgemm
