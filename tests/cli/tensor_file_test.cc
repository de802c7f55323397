// SPDX-License-Identifier: Apache-2.0

#include "cli/tensor_files/tensor_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "cli/tensor_files/npy.h"
#include "tests/cli/tensor_bytes.h"

namespace qgemm {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string Write(const std::string& name, const std::string& bytes) {
  const std::string path = testing::TempDir() + "/" + name;
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

TEST(TensorFileTest, OpensEachFormat) {
  const std::string json =
      R"({"w":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]}})";
  for (const std::string& path :
       {Write("t.safetensors", Safetensors(json, 8)),
        Write("gguf.bin",
              GgufFile(GgufPreamble(1, 0) + GgufTensor("w", {2, 1}, 0, 0), 8)),
        Write("npy.bin", NpyHeader("<f4", 1, 2) + std::string(8, '\0'))}) {
    const auto file = TensorFile::Open(path);
    ASSERT_TRUE(file.ok()) << file.status();
    const auto matrix = (*file)->Matrix("");
    ASSERT_TRUE(matrix.ok()) << matrix.status();
    EXPECT_EQ(matrix->n, 1);
    EXPECT_EQ(matrix->k, 2);
    EXPECT_EQ(matrix->size_bytes, 8);
  }
}

TEST(TensorFileTest, ReadsValuesOfEveryFloatType) {
  const std::string json =
      R"({"f":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]},)"
      R"("h":{"dtype":"F16","shape":[1,2],"data_offsets":[8,12]},)"
      R"("b":{"dtype":"BF16","shape":[1,2],"data_offsets":[12,16]}})";
  const std::string bytes = Raw<uint64_t>(json.size()) + json + Raw(1.5f) +
                            Raw(-2.0f) + Raw<uint16_t>(0x3e00) +
                            Raw<uint16_t>(0xc000) + Raw<uint16_t>(0x3fc0) +
                            Raw<uint16_t>(0xc000);
  const auto file = TensorFile::Open(Write("values.safetensors", bytes));
  ASSERT_TRUE(file.ok()) << file.status();
  for (const char* name : {"f", "h", "b"}) {
    EXPECT_THAT(*(*file)->ReadFloats(*(*file)->Matrix(name)),
                ElementsAre(1.5f, -2.0f))
        << name;
  }
}

TEST(TensorFileTest, ErrorsNameThePath) {
  const std::string path = Write("bad.safetensors", "short");
  const absl::Status status = TensorFile::Open(path).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr(path));
}

TEST(TensorFileTest, AFileThatIsShortenedMeanwhileIsAnError) {
  const std::string header = NpyHeader("<f4", 1, 2);
  const std::string path = Write("cut.npy", header + std::string(8, '\0'));
  const auto file = TensorFile::Open(path);
  ASSERT_TRUE(file.ok()) << file.status();
  const auto matrix = (*file)->Matrix("");
  ASSERT_TRUE(matrix.ok()) << matrix.status();
  std::filesystem::resize_file(path, header.size() + 3);
  const absl::Status status = (*file)->ReadFloats(*matrix).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(std::string(status.message()),
            absl::StrCat(path, ": the file changed while it was read: ",
                         header.size() + 3, " of ", header.size() + 8,
                         " bytes are left"));
}

TEST(TensorFileTest, AMissingFileIsNotFound) {
  EXPECT_EQ(TensorFile::Open(testing::TempDir() + "/none").status().code(),
            absl::StatusCode::kNotFound);
}

TEST(TensorFileTest, RefusesFoldersEmptyAndForeignFiles) {
  for (const std::string& path : {testing::TempDir(), Write("empty.npy", ""),
                                  Write("text.txt", "weights")}) {
    EXPECT_EQ(TensorFile::Open(path).status().code(),
              absl::StatusCode::kInvalidArgument)
        << path;
  }
}

TEST(TensorFileTest, AMissingTensorListsThoseThatThereAre) {
  const std::string json =
      R"({"left":{"dtype":"F16","shape":[1,1],"data_offsets":[0,2]},)"
      R"("right":{"dtype":"F16","shape":[1,1],"data_offsets":[2,4]}})";
  const auto file =
      TensorFile::Open(Write("two.safetensors", Safetensors(json, 4)));
  ASSERT_TRUE(file.ok()) << file.status();
  for (const char* name : {"", "up"}) {
    const absl::Status status = (*file)->Matrix(name).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
    EXPECT_THAT(std::string(status.message()), HasSubstr("'left', 'right'"));
  }
}

TEST(TensorFileTest, RefusesTensorsThatAreNoReadableMatrix) {
  const std::string json =
      R"({"vector":{"dtype":"F16","shape":[2],"data_offsets":[0,4]},)"
      R"("int":{"dtype":"I32","shape":[1,1],"data_offsets":[4,8]}})";
  const auto file =
      TensorFile::Open(Write("types.safetensors", Safetensors(json, 8)));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ((*file)->Matrix("vector").status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ((*file)->Matrix("int").status().code(),
            absl::StatusCode::kUnimplemented);
}

}  // namespace
}  // namespace qgemm
