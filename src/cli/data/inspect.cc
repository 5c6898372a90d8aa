// convoy inspect: what packed files hold.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <sstream>

#include "cli/commands.h"
#include "cli/data/words.h"
#include "cli/rows.h"
#include "cli/writes.h"
#include "convoy/base/checksum.h"
#include "convoy/base/names.h"
#include "convoy/base/units.h"
#include "convoy/data/packed.h"

namespace convoy::cli {
namespace {

// So many classes fit a screen.
constexpr std::size_t kFewClasses = 20;

struct InspectArguments {
  std::vector<std::string> files;
  bool classes = false;
  bool records = false;
  std::string json;
};

void print(const data::PackedSummary& s, bool all_classes) {
  std::printf("%s: %s of %s, %s\n", s.file.c_str(), counted(s.records, "image").c_str(),
              counted(s.classes.size(), "class").c_str(), format_bytes(s.tar_bytes).c_str());
  std::printf("images   %s together; %s to %s each, median %s\n",
              format_bytes(s.record_bytes).c_str(), format_bytes(s.smallest).c_str(),
              format_bytes(s.largest).c_str(), format_bytes(s.median).c_str());
  if (s.label_lists) {
    std::printf("labels   %s, any number for each image, %llu at most; %llu without any\n",
                counted(s.labels, "label").c_str(), number(s.most_labels), number(s.unlabeled));
  }
  std::istringstream about(s.about.empty() ? "not by convoy pack" : s.about);
  const char* title = "packed ";
  for (std::string line; std::getline(about, line); title = "")
    std::printf("%-7s  %s\n", title, printable(line).c_str());
  const std::size_t shown =
      all_classes ? s.classes.size() : std::min(s.classes.size(), kFewClasses);
  std::printf("%7s  %10s  class\n", "label", "images");
  for (std::size_t i = 0; i < shown; ++i) {
    std::printf("%7zu  %10llu  %s\n", i, number(s.class_records[i]),
                printable(s.classes[i]).c_str());
  }
  if (shown < s.classes.size()) {
    std::printf("         and %zu more; --classes shows all\n", s.classes.size() - shown);
  }
}

void add_rows(Rows& rows, const data::PackedSummary& s) {
  rows.add({{"kind", "file"},
            {"file", s.file},
            {"bytes", s.tar_bytes},
            {"records", s.records},
            {"classes", s.classes.size()},
            {"label_lists", s.label_lists},
            {"labels", s.labels},
            {"unlabeled", s.unlabeled},
            {"most_labels", s.most_labels},
            {"record_bytes", s.record_bytes},
            {"smallest_bytes", s.smallest},
            {"median_bytes", s.median},
            {"largest_bytes", s.largest},
            {"about", s.about}});
  for (std::size_t i = 0; i < s.classes.size(); ++i) {
    rows.add({{"kind", "class"},
              {"file", s.file},
              {"label", i},
              {"name", s.classes[i]},
              {"records", s.class_records[i]}});
  }
}

// "0,2"; "-" where there is none.
std::string text_of(const std::vector<std::int64_t>& labels) {
  std::string text;
  for (const std::int64_t label : labels) text += (text.empty() ? "" : ",") + std::to_string(label);
  return text.empty() ? "-" : text;
}

void list_records(Rows& rows, const std::string& file) {
  if (!rows.on_standard_output()) {
    std::printf("%14s  %10s  %7s  %-16s  key\n", "offset", "bytes", "label", "xxh3");
  }
  data::list_packed(file, [&](const data::PackedRecord& r) {
    rows.add({{"kind", "record"},
              {"file", file},
              {"key", r.key},
              {"offset", r.offset},
              {"bytes", r.length},
              {"label", r.label},
              {"labels", r.labels},
              {"xxh3", to_hex(r.checksum)}});
    if (rows.on_standard_output()) return;
    std::printf("%14llu  %10llu  %7s  %s  %s\n", number(r.offset), number(r.length),
                text_of(r.labels).c_str(), to_hex(r.checksum).c_str(), printable(r.key).c_str());
  });
}

void run_inspect(const InspectArguments& arguments) {
  Rows rows(arguments.json);
  for (const std::string& file : arguments.files) {
    const data::PackedSummary summary = data::inspect_packed(file);
    add_rows(rows, summary);
    if (!rows.on_standard_output()) print(summary, arguments.classes);
    if (arguments.records) list_records(rows, file);
  }
}

}  // namespace

void add_inspect_command(CLI::App& app) {
  const auto arguments = std::make_shared<InspectArguments>();
  CLI::App* command =
      app.add_subcommand("inspect", "Say what packed files hold, without reading the images");
  command->add_option("files", arguments->files, "Packed files, each with its index beside it")
      ->type_name("FILE.tar")
      ->required();
  command->add_flag("--classes", arguments->classes, "All classes, however many there are");
  command->add_flag("--records", arguments->records, "Also every record: where it is, its labels");
  command
      ->add_option("--json", arguments->json,
                   "One object per file, class and record ('-': standard output)")
      ->type_name("FILE")
      ->check(writes_file(kTableFile));
  command->callback([arguments] { run_inspect(*arguments); });
}

}  // namespace convoy::cli
