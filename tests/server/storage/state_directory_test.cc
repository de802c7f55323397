// SPDX-License-Identifier: Apache-2.0
//
// The state directory over a disk that fails and loses power.

#include "server/storage/state_directory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "tests/server/storage/fault_files.h"
#include "tests/server/storage/random_layer.h"

namespace qgemm {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

NameChange Bind(const std::string& name, const std::string& id) {
  return {NameChange::Kind::kBind, name, "", id, 0};
}
NameChange Drop(const std::string& name) {
  return {NameChange::Kind::kDrop, name, "", "", 0};
}

std::string PathOf(const std::string& id) {
  return absl::StrCat("layers/", id, ".qgw");
}

// Names of an opened directory, each of whose layers is sound.
std::map<std::string, std::string> SoundNames(const StateDirectory& directory) {
  std::map<std::string, std::string> names;
  const NameTable table = directory.table();
  for (const auto& [name, bound] : table.names()) {
    const auto reader = directory.Read(bound.id);
    EXPECT_TRUE(reader.ok()) << reader.status();
    if (reader.ok()) {
      const absl::Status verified = reader->Verify();
      EXPECT_TRUE(verified.ok()) << verified;
    }
    names[name] = bound.id;
  }
  return names;
}

class StateDirectoryTest : public testing::Test {
 protected:
  absl::StatusOr<std::unique_ptr<StateDirectory>> Open(int64_t max_bytes = 0) {
    return StateDirectory::Open(&files_, {max_bytes, {}});
  }
  std::unique_ptr<StateDirectory> MustOpen() {
    auto directory = Open();
    CHECK_OK(directory.status());
    return *std::move(directory);
  }
  RandomLayer NewLayer() {
    return MakeRandomLayer(RandomInt(1, 8, &random_),
                           RandomInt(1, 300, &random_), &random_);
  }
  absl::Status Load(const RandomLayer& layer, const std::string& name,
                    StateDirectory* directory) {
    const UploadKey key = {"", layer.digest};
    const bool has_key = RandomInt(0, 1, &random_) == 1;
    const auto hold =
        KeepLayer(layer, directory, &random_, has_key ? &key : nullptr);
    if (!hold.ok()) return hold.status();
    return directory->Append({Bind(name, layer.id())});
  }

  RandomGenerator random_{FreshSeed()};
  FaultFiles files_{&random_};
};

TEST_F(StateDirectoryTest, KeepsLayersAndNames) {
  const RandomLayer layer = NewLayer();
  ASSERT_TRUE(Load(layer, "a", MustOpen().get()).ok());
  const auto directory = MustOpen();
  EXPECT_EQ(SoundNames(*directory).at("a"), layer.id());
  ASSERT_THAT(directory->layers(), SizeIs(1));
  EXPECT_EQ(CanonicalText(directory->layers()[0].spec),
            CanonicalText(layer.spec));
  EXPECT_EQ(directory->used_bytes(), WeightsFileBytes(layer.spec));
  EXPECT_THAT(directory->recovery().lost, IsEmpty());
}

TEST_F(StateDirectoryTest, ALayerGoesWithItsLastName) {
  const auto directory = MustOpen();
  const RandomLayer layer = NewLayer();
  ASSERT_TRUE(Load(layer, "a", directory.get()).ok());
  ASSERT_TRUE(directory->Append({Bind("b", layer.id())}).ok());
  ASSERT_TRUE(directory->Append({Drop("a")}).ok());
  EXPECT_TRUE(files_.Has(PathOf(layer.id())));
  ASSERT_TRUE(directory->Append({Drop("b")}).ok());
  EXPECT_FALSE(files_.Has(PathOf(layer.id())));
  EXPECT_EQ(directory->used_bytes(), 0);
}

TEST_F(StateDirectoryTest, AnUploadThatIsNotKeptLeavesNothing) {
  const auto directory = MustOpen();
  const RandomLayer layer = NewLayer();
  {
    auto upload = directory->Begin(layer.spec);
    ASSERT_TRUE(upload.ok());
    ASSERT_TRUE((*upload)->Append("some").ok());
    EXPECT_GT(directory->used_bytes(), 0);
  }
  EXPECT_EQ(directory->used_bytes(), 0);
  // Nor does one that no name came to hold.
  ASSERT_TRUE(KeepLayer(layer, directory.get(), &random_).ok());
  EXPECT_FALSE(files_.Has(PathOf(layer.id())));
}

TEST_F(StateDirectoryTest, AHoldKeepsTheFileFromAnUnload) {
  const auto directory = MustOpen();
  const RandomLayer layer = NewLayer();
  ASSERT_TRUE(Load(layer, "a", directory.get()).ok());
  {
    const auto again = KeepLayer(layer, directory.get(), &random_);
    ASSERT_TRUE(again.ok());
    ASSERT_TRUE(directory->Append({Drop("a")}).ok());
    EXPECT_TRUE(directory->Has(layer.id()));
    ASSERT_TRUE(directory->Append({Bind("b", layer.id())}).ok());
  }
  EXPECT_EQ(SoundNames(*directory).at("b"), layer.id());
}

TEST_F(StateDirectoryTest, OneProcessHasItOpen) {
  const auto directory = MustOpen();
  EXPECT_TRUE(absl::IsUnavailable(Open().status()));
}

TEST_F(StateDirectoryTest, ANewerVersionAndOtherFoldersAreRefused) {
  MustOpen();
  files_.Bytes("version") = "qgemm state directory, version 2\n";
  const absl::Status newer = Open().status();
  EXPECT_EQ(newer.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(newer.message()),
              AllOf(HasSubstr("version 2"), HasSubstr("reads 1")));
  files_.Bytes("version") = "3.14";
  EXPECT_EQ(Open().status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(StateDirectoryTest, BoundsItsBytes) {
  const RandomLayer layer = NewLayer();
  const int64_t bytes = WeightsFileBytes(layer.spec);
  {
    const auto directory = Open(bytes);
    ASSERT_TRUE(directory.ok());
    const auto upload = (*directory)->Begin(layer.spec);
    ASSERT_TRUE(upload.ok());
    const absl::Status second = (*directory)->Begin(layer.spec).status();
    EXPECT_TRUE(absl::IsResourceExhausted(second));
    EXPECT_THAT(std::string(second.message()), HasSubstr("--state_bytes"));
  }
  ASSERT_TRUE(Load(layer, "a", MustOpen().get()).ok());
  EXPECT_TRUE(Open(bytes).ok());
  EXPECT_EQ(Open(bytes - 1).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST_F(StateDirectoryTest, ADamagedHeaderIsSetAsideAndItsNamesAreTold) {
  const RandomLayer damaged = NewLayer();
  const RandomLayer sound = NewLayer();
  {
    const auto directory = MustOpen();
    ASSERT_TRUE(Load(damaged, "a", directory.get()).ok());
    ASSERT_TRUE(Load(sound, "b", directory.get()).ok());
  }
  files_.Bytes(PathOf(damaged.id()))[40] ^= 1;
  const auto directory = MustOpen();
  EXPECT_EQ(directory->recovery().damaged_files, 1);
  ASSERT_THAT(directory->recovery().lost, SizeIs(1));
  EXPECT_EQ(directory->recovery().lost[0].name, "a");
  EXPECT_TRUE(files_.Has(absl::StrCat("damaged/", damaged.id(), ".qgw")));
  EXPECT_THAT(SoundNames(*directory), SizeIs(1));
}

TEST_F(StateDirectoryTest, SetsAsideWhatIsDamagedAlone) {
  const RandomLayer layer = NewLayer();
  const auto directory = MustOpen();
  ASSERT_TRUE(Load(layer, "a", directory.get()).ok());
  directory->SetAside(layer.id());
  EXPECT_TRUE(directory->Has(layer.id()));
  files_.Bytes(PathOf(layer.id()))[kWeightsFileHeaderBytes] ^= 1;
  directory->SetAside(layer.id());
  EXPECT_FALSE(directory->Has(layer.id()));
  EXPECT_EQ(directory->used_bytes(), 0);
  // The next upload brings it back.
  ASSERT_TRUE(Load(layer, "a", directory.get()).ok());
  EXPECT_EQ(SoundNames(*directory).at("a"), layer.id());
}

TEST_F(StateDirectoryTest, ADamagedLogDestroysNoLayer) {
  const RandomLayer layer = NewLayer();
  {
    const auto directory = MustOpen();
    ASSERT_TRUE(Load(layer, "a", directory.get()).ok());
    ASSERT_TRUE(directory->Append({Bind("b", layer.id()), Drop("a")}).ok());
    ASSERT_TRUE(directory->Append({Drop("b")}).ok());
    ASSERT_TRUE(Load(layer, "c", directory.get()).ok());
    ASSERT_TRUE(Load(NewLayer(), "d", directory.get()).ok());
  }
  std::string& log = files_.Bytes("names.log");
  for (size_t i = 16; i < log.size() - 160; ++i) log[i] = 'x';
  const auto directory = MustOpen();
  EXPECT_TRUE(directory->recovery().log_was_damaged);
  EXPECT_TRUE(files_.Has("damaged/names.log"));
  EXPECT_TRUE(files_.Has(absl::StrCat("damaged/", layer.id(), ".qgw")) ||
              directory->Has(layer.id()));
}

// The opening that finds the damage fails at any change, and the next one
// sets aside what that has not.
TEST_F(StateDirectoryTest, ADamagedLogDestroysNoLayerIfItsRecoveryFails) {
  for (int changes = 0; changes < 24; ++changes) {
    FaultFiles files(&random_);
    std::vector<std::string> ids;
    {
      auto opened = StateDirectory::Open(&files, {});
      CHECK_OK(opened.status());
      for (int i = 0; i < 4; ++i) {
        const RandomLayer layer = NewLayer();
        ids.push_back(layer.id());
        ASSERT_TRUE(Load(layer, absl::StrCat("n", i), opened->get()).ok());
      }
    }
    {
      // On the disk too, unlike Bytes.
      const auto log = files.OpenToWrite("names.log");
      CHECK_OK((*log)->WriteAt(
          16, std::string(files.Bytes("names.log").size() - 176, 'x')));
      CHECK_OK((*log)->Sync());
    }
    const std::string damaged = files.Bytes("names.log");
    const absl::Status error = absl::InternalError("bad sector");
    if (RandomInt(0, 1, &random_) == 0) {
      files.FailAfter(changes, error);
    } else {
      files.FailOnceAfter(changes, error);
    }
    static_cast<void>(StateDirectory::Open(&files, {}));
    files.FailAfter(0, absl::OkStatus());
    ASSERT_TRUE(StateDirectory::Open(&files, {}).ok());
    files.Crash();
    const auto opened = StateDirectory::Open(&files, {});
    ASSERT_TRUE(opened.ok()) << opened.status();
    EXPECT_EQ(files.Bytes("damaged/names.log"), damaged);
    for (const std::string& id : ids) {
      EXPECT_TRUE(files.Has(absl::StrCat("damaged/", id, ".qgw")) ||
                  (*opened)->Has(id))
          << changes;
    }
  }
}

TEST_F(StateDirectoryTest, AFullDiskRefusesAndTheRestServesOn) {
  const auto directory = MustOpen();
  const RandomLayer kept = NewLayer();
  ASSERT_TRUE(Load(kept, "a", directory.get()).ok());
  for (int changes = 0; changes < 12; ++changes) {
    files_.FailAfter(changes, absl::ResourceExhaustedError("disk full"));
    const absl::Status status = Load(NewLayer(), "b", directory.get());
    files_.FailAfter(0, absl::OkStatus());
    EXPECT_TRUE(status.ok() || absl::IsResourceExhausted(status)) << status;
    EXPECT_EQ(SoundNames(*directory).count("b"), status.ok() ? 1 : 0);
    ASSERT_TRUE(directory->Append({Drop("b")}).ok());
    EXPECT_EQ(SoundNames(*directory).at("a"), kept.id());
    EXPECT_EQ(directory->used_bytes(), WeightsFileBytes(kept.spec));
  }
}

// A process ends after a binding failed, which the next one does not find, or
// finds with its layer.
TEST_F(StateDirectoryTest, AFailedBindingLosesNoLayer) {
  for (int changes = 0; changes < 4; ++changes) {
    const RandomLayer before = NewLayer();
    const RandomLayer after = NewLayer();
    bool bound = false;
    {
      const auto directory = MustOpen();
      ASSERT_TRUE(Load(before, "a", directory.get()).ok());
      const auto hold = KeepLayer(after, directory.get(), &random_);
      ASSERT_TRUE(hold.ok());
      files_.FailOnceAfter(changes, absl::InternalError("bad sector"));
      bound = directory->Append({Bind("a", after.id())}).ok();
      files_.FailAfter(0, absl::OkStatus());
    }
    const auto directory = MustOpen();
    EXPECT_THAT(directory->recovery().lost, IsEmpty()) << changes;
    EXPECT_EQ(SoundNames(*directory)["a"], (bound ? after : before).id());
    EXPECT_EQ(directory->file_count(), 1);
  }
}

TEST_F(StateDirectoryTest, NoFileGoesWhileTheLogIsDoubtful) {
  const RandomLayer before = NewLayer();
  const RandomLayer after = NewLayer();
  const auto directory = MustOpen();
  ASSERT_TRUE(Load(before, "a", directory.get()).ok());
  {
    const auto hold = KeepLayer(after, directory.get(), &random_);
    ASSERT_TRUE(hold.ok());
    files_.FailAfter(1, absl::InternalError("bad disk"));
    EXPECT_FALSE(directory->Append({Bind("a", after.id())}).ok());
    files_.FailAfter(0, absl::OkStatus());
  }
  EXPECT_TRUE(files_.Has(PathOf(before.id())));
  EXPECT_TRUE(files_.Has(PathOf(after.id())));
  ASSERT_TRUE(directory->Append({Drop("b")}).ok());
  EXPECT_EQ(SoundNames(*directory)["a"], before.id());
  EXPECT_FALSE(files_.Has(PathOf(after.id())));
  EXPECT_EQ(directory->used_bytes(), WeightsFileBytes(before.spec));
}

// A layer of several blocks, and a last one that is not whole.
RandomLayer LargeLayer(RandomGenerator* random) {
  return MakeRandomLayer(RandomInt(1100, 1400, random), 512, random);
}

// Bytes that another process continues, which must be the begin of the
// layer's; -1 if there is nothing.
int64_t Continued(const RandomLayer& layer, const std::string& owner,
                  StateDirectory* directory,
                  std::unique_ptr<StateDirectory::Upload>* upload) {
  std::string bytes;
  auto continued = directory->Continue(
      {owner, layer.digest}, layer.spec,
      [&bytes](Section, absl::Span<const uint8_t> part) {
        bytes.append(reinterpret_cast<const char*>(part.data()), part.size());
        return absl::OkStatus();
      });
  if (absl::IsNotFound(continued.status())) return -1;
  EXPECT_TRUE(continued.ok()) << continued.status();
  EXPECT_EQ(bytes, layer.payload.substr(0, bytes.size()));
  *upload = *std::move(continued);
  return static_cast<int64_t>(bytes.size());
}

TEST_F(StateDirectoryTest, AnUploadThatIsLeftIsContinuedByItsClient) {
  const RandomLayer layer = LargeLayer(&random_);
  const UploadKey key = {"client", layer.digest};
  constexpr int64_t kWhole = kWeightsFileBlockBytes;
  {
    const auto directory = MustOpen();
    auto upload = directory->Begin(layer.spec, &key);
    ASSERT_TRUE(upload.ok());
    ASSERT_TRUE((*upload)->Append(layer.payload.substr(0, kWhole + 77)).ok());
    (*upload)->Leave();
  }
  const auto directory = MustOpen();
  EXPECT_THAT(directory->layers(), IsEmpty());
  EXPECT_GT(directory->used_bytes(), 0);
  EXPECT_TRUE(directory->FindPart(key).ok());
  EXPECT_FALSE(directory->FindPart({"other", layer.digest}).ok());
  std::unique_ptr<StateDirectory::Upload> upload;
  ASSERT_EQ(Continued(layer, "client", directory.get(), &upload), kWhole);
  EXPECT_FALSE(directory->FindPart(key).ok());
  EXPECT_EQ(directory->used_bytes(), WeightsFileBytes(layer.spec));
  ASSERT_TRUE(upload->Append(layer.payload.substr(kWhole)).ok());
  const auto hold = directory->Keep(std::move(upload), layer.digest);
  ASSERT_TRUE(hold.ok()) << hold.status();
  ASSERT_TRUE(directory->Append({Bind("a", layer.id())}).ok());
  EXPECT_EQ(SoundNames(*directory).at("a"), layer.id());
}

TEST_F(StateDirectoryTest, UploadsThatAreNotContinuedAreRemoved) {
  const RandomLayer layer = NewLayer();
  const UploadKey key = {"client", layer.digest};
  const auto list = [this] { return *files_.List("uploads"); };
  {
    const auto directory = MustOpen();
    {
      auto dropped = directory->Begin(layer.spec, &key);
      ASSERT_TRUE(dropped.ok());
      EXPECT_THAT(list(), SizeIs(1));
    }
    EXPECT_THAT(list(), IsEmpty());
    auto left = directory->Begin(layer.spec, &key);
    ASSERT_TRUE(left.ok());
    (*left)->Leave();
  }
  {
    // One that there is no room for.
    const auto directory = Open(1);
    ASSERT_TRUE(directory.ok());
    EXPECT_THAT(list(), IsEmpty());
    EXPECT_EQ((*directory)->used_bytes(), 0);
  }
  {
    auto left = MustOpen()->Begin(layer.spec, &key);
    ASSERT_TRUE(left.ok());
    (*left)->Leave();
  }
  const auto directory = MustOpen();
  directory->DropParts();
  EXPECT_THAT(list(), IsEmpty());
  EXPECT_EQ(directory->used_bytes(), 0);
}

// The power goes at any moment of an upload: what is left is the begin of it,
// or nothing, and no layer.
TEST_F(StateDirectoryTest, ACrashLeavesTheBeginOfAnUploadOrNothing) {
  int continued = 0;
  for (int round = 0; round < 60; ++round) {
    FaultFiles files(&random_);
    const RandomLayer layer = LargeLayer(&random_);
    const UploadKey key = {"", layer.digest};
    {
      auto opened = StateDirectory::Open(&files, {});
      CHECK_OK(opened.status());
      files.FailAfter(RandomInt(2, 14, &random_),
                      absl::InternalError("no power"));
      auto upload = (*opened)->Begin(layer.spec, &key);
      absl::Status status = upload.status();
      absl::string_view left = layer.payload;
      while (status.ok() && !left.empty()) {
        const absl::string_view piece =
            left.substr(0, RandomInt(1, 700000, &random_));
        status = (*upload)->Append(piece);
        left.remove_prefix(piece.size());
      }
      if (upload.ok()) (*upload)->Leave();  // a crash removes no file
    }
    // Either the power, or the process alone.
    if (RandomInt(0, 1, &random_) == 1) files.Crash();
    files.FailAfter(0, absl::OkStatus());
    auto opened = StateDirectory::Open(&files, {});
    ASSERT_TRUE(opened.ok()) << opened.status();
    EXPECT_THAT((*opened)->layers(), IsEmpty());
    std::unique_ptr<StateDirectory::Upload> upload;
    const int64_t bytes = Continued(layer, "", opened->get(), &upload);
    if (bytes < 0) continue;
    continued += bytes > 0 ? 1 : 0;
    ASSERT_TRUE(upload->Append(layer.payload.substr(bytes)).ok());
    const auto hold = (*opened)->Keep(std::move(upload), layer.digest);
    ASSERT_TRUE(hold.ok()) << hold.status();
    ASSERT_TRUE((*opened)->Append({Bind("a", layer.id())}).ok());
    EXPECT_EQ(SoundNames(**opened).at("a"), layer.id());
  }
  EXPECT_GT(continued, 0);
}

// Uploads, bindings and unloads until the power goes.
TEST_F(StateDirectoryTest, ACrashAtAnyMomentLosesNothingThatWasAcknowledged) {
  for (int round = 0; round < 400; ++round) {
    FaultFiles files(&random_);
    std::map<std::string, std::string> before;  // acknowledged
    std::map<std::string, std::string> after;   // and what the crash met
    {
      auto opened = StateDirectory::Open(&files, {});
      CHECK_OK(opened.status());
      StateDirectory* const directory = opened->get();
      files.FailAfter(RandomInt(0, 120, &random_),
                      absl::InternalError("no power"));
      while (true) {
        before = after;
        const std::string name = absl::StrCat("n", RandomInt(0, 3, &random_));
        absl::Status status;
        if (RandomInt(0, 2, &random_) > 0) {
          const RandomLayer layer = NewLayer();
          after[name] = layer.id();
          status = Load(layer, name, directory);
        } else if (after.count(name) != 0) {
          after.erase(name);
          status = directory->Append({Drop(name)});
        }
        if (!status.ok()) break;
      }
    }
    files.Crash();
    for (int openings = 0; openings < 2; ++openings) {
      auto opened = StateDirectory::Open(&files, {});
      ASSERT_TRUE(opened.ok()) << opened.status();
      const StateRecovery& recovery = (*opened)->recovery();
      EXPECT_FALSE(recovery.log_was_damaged);
      EXPECT_EQ(recovery.damaged_files, 0);
      EXPECT_THAT(recovery.lost, IsEmpty());
      const auto found = SoundNames(**opened);
      EXPECT_TRUE(found == before || found == after) << "round " << round;
      // No file without a name is left.
      EXPECT_EQ((*opened)->file_count(), found.size());
    }
  }
}

// The disk fails now and then, and the server serves on until the power goes.
TEST_F(StateDirectoryTest, FailuresBeforeACrashLoseNothingThatWasAcknowledged) {
  for (int round = 0; round < 200; ++round) {
    FaultFiles files(&random_);
    std::map<std::string, std::string> acknowledged;
    std::map<std::string, std::set<std::string>> possible;
    {
      auto opened = StateDirectory::Open(&files, {});
      CHECK_OK(opened.status());
      for (int step = 0; step < 30; ++step) {
        if (RandomInt(0, 2, &random_) == 0) {
          const absl::Status error = absl::InternalError("bad sector");
          const int64_t changes = RandomInt(0, 20, &random_);
          if (RandomInt(0, 1, &random_) == 0) {
            files.FailAfter(changes, error);
          } else {
            files.FailOnceAfter(changes, error);
          }
        }
        const std::string name = absl::StrCat("n", RandomInt(0, 3, &random_));
        const RandomLayer layer = NewLayer();
        const absl::Status status = Load(layer, name, opened->get());
        files.FailAfter(0, absl::OkStatus());
        if (status.ok()) {
          acknowledged[name] = layer.id();
          possible.clear();
        } else {
          possible[name].insert(layer.id());
        }
      }
    }
    files.Crash();
    auto opened = StateDirectory::Open(&files, {});
    ASSERT_TRUE(opened.ok()) << opened.status();
    EXPECT_FALSE((*opened)->recovery().log_was_damaged);
    const auto found = SoundNames(**opened);
    EXPECT_THAT((*opened)->recovery().lost, IsEmpty());
    for (const auto& [name, id] : acknowledged) {
      const auto at = found.find(name);
      ASSERT_NE(at, found.end()) << name << ", round " << round;
      // One that failed last may have come onto the disk all the same.
      if (possible[name].count(at->second) != 0) continue;
      EXPECT_EQ(at->second, id);
    }
  }
}

}  // namespace
}  // namespace qgemm
