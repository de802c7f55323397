// SPDX-License-Identifier: Apache-2.0
//
// Writes the pages of the sample reports into a folder, for browser_test.py.
//
// Usage: sample_page FOLDER

#include <fstream>
#include <iostream>
#include <string>
#include <utility>

#include "loadtest/report/html_page.h"
#include "tests/loadtest/report_page/sample_reports.h"

namespace {

bool Write(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file) std::cerr << "cannot write " << path << "\n";
  return static_cast<bool>(file);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: sample_page FOLDER\n";
    return 2;
  }
  const std::string folder = argv[1];
  const std::pair<const char*, qgemm::LoadtestReport> samples[] = {
      {"open", qgemm::OpenReport()},      {"sweep", qgemm::SweepReport()},
      {"peak", qgemm::PeakReport()},      {"failed", qgemm::FailedReport()},
      {"closed", qgemm::ClassesReport()}, {"empty", qgemm::EmptyReport()}};
  for (const auto& [name, report] : samples) {
    const std::string stem = folder + "/" + name;
    if (!Write(stem + ".html", qgemm::FormatHtml(report))) return 1;
    if (!Write(stem + ".svg", qgemm::FormatSpectrumSvg(report))) return 1;
  }
  return 0;
}
