// SPDX-License-Identifier: Apache-2.0
//
// A closed state directory with all that one may have.

#include "server/storage/state_survey.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "server/storage/state_directory.h"
#include "tests/server/storage/fault_files.h"
#include "tests/server/storage/random_layer.h"

namespace qgemm {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class StateSurveyTest : public testing::Test {
 protected:
  std::unique_ptr<StateDirectory> Open() {
    auto directory = StateDirectory::Open(&files_, {});
    CHECK_OK(directory.status());
    return *std::move(directory);
  }
  RandomLayer NewLayer() { return MakeRandomLayer(8, 40, &random_); }
  void Load(const RandomLayer& layer, const std::vector<std::string>& names,
            StateDirectory* directory) {
    const auto hold = KeepLayer(layer, directory, &random_);
    CHECK_OK(hold.status());
    for (const std::string& name : names) {
      CHECK_OK(directory->Append(
          {{NameChange::Kind::kBind, name, "", layer.id(), 0}}));
    }
  }
  std::map<std::string, std::string> Contents() {
    std::map<std::string, std::string> contents;
    for (const char* const folder : {".", "layers", "uploads", "damaged"}) {
      const auto found = files_.List(folder);
      for (const FolderEntry& file : *found) {
        const std::string path = absl::StrCat(folder, "/", file.name);
        std::string bytes(file.size_bytes, '\0');
        CHECK_OK((*files_.OpenToRead(path))
                     ->ReadAt(0, absl::MakeSpan(bytes))
                     .status());
        contents[path] = bytes;
      }
    }
    return contents;
  }

  RandomGenerator random_{FreshSeed()};
  FaultFiles files_{&random_};
};

TEST_F(StateSurveyTest, TellsAllAndChangesNothing) {
  const RandomLayer sound = NewLayer();
  const RandomLayer damaged = NewLayer();
  const RandomLayer lost = NewLayer();
  const RandomLayer part = NewLayer();
  const UploadKey key = {"client", part.digest};
  {
    const auto directory = Open();
    Load(sound, {"b", "a"}, directory.get());
    Load(damaged, {"c"}, directory.get());
    Load(lost, {"d"}, directory.get());
    auto upload = directory->Begin(part.spec, &key);
    CHECK_OK(upload.status());
    (*upload)->Leave();
  }
  files_.Bytes(StateDirectory::PathOf(damaged.id()))[20] ^= 1;
  CHECK_OK(files_.Remove(StateDirectory::PathOf(lost.id())));
  *files_.OpenToWrite("layers/unheld.qgw");
  *files_.OpenToWrite("damaged/old.qgw");
  const auto before = Contents();

  auto survey = SurveyState(&files_);

  ASSERT_TRUE(survey.ok()) << survey.status();
  EXPECT_EQ(Contents(), before);
  std::map<std::string, SurveyedLayer> layers;
  for (const SurveyedLayer& layer : survey->layers) layers[layer.id] = layer;
  ASSERT_THAT(layers, SizeIs(3));
  EXPECT_TRUE(layers[sound.id()].state.ok()) << layers[sound.id()].state;
  EXPECT_THAT(layers[sound.id()].names, ElementsAre("a", "b"));
  EXPECT_EQ(layers[sound.id()].file_bytes, WeightsFileBytes(sound.spec));
  EXPECT_TRUE(absl::IsDataLoss(layers[damaged.id()].state));
  EXPECT_TRUE(absl::IsNotFound(layers[lost.id()].state));
  EXPECT_FALSE(survey->log_is_damaged);
  EXPECT_EQ(survey->unheld.files, 1);
  EXPECT_EQ(survey->uploads.files, 1);
  EXPECT_EQ(survey->damaged.files, 1);
  // No server may open it meanwhile.
  EXPECT_TRUE(absl::IsUnavailable(StateDirectory::Open(&files_, {}).status()));
  survey->lock.reset();

  ASSERT_TRUE(CleanState(&files_, SetAsideFiles::kKeep).ok());
  survey = SurveyState(&files_);
  ASSERT_TRUE(survey.ok()) << survey.status();
  ASSERT_THAT(survey->layers, SizeIs(1));
  EXPECT_EQ(survey->layers[0].id, sound.id());
  EXPECT_EQ(survey->unheld.files, 0);
  EXPECT_EQ(survey->uploads.files, 0);
  EXPECT_EQ(survey->damaged.files, 2);
  survey->lock.reset();

  ASSERT_TRUE(CleanState(&files_, SetAsideFiles::kRemove).ok());
  EXPECT_THAT(*files_.List("damaged"), IsEmpty());
  EXPECT_THAT(*files_.List("layers"), SizeIs(1));
}

TEST_F(StateSurveyTest, OfAnOpenDirectoryOrNoneItIsRefused) {
  EXPECT_EQ(SurveyState(&files_).status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(CleanState(&files_, SetAsideFiles::kKeep).code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(*files_.List("."), IsEmpty());  // and none is made
  const auto directory = Open();
  EXPECT_TRUE(absl::IsUnavailable(SurveyState(&files_).status()));
  EXPECT_TRUE(absl::IsUnavailable(CleanState(&files_, SetAsideFiles::kKeep)));
}

}  // namespace
}  // namespace qgemm
