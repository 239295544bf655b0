/*
Trains an exported graph with MNN where there is no Python, and writes down when each step ran.

wattstep starts it on a phone (`wattstep run --from FOLDER --target adb://SERIAL,runner=DIR`). Built with
MNN's headers and library for the phone's ABI, see docs/phones.md: for arm64-v8a, in the folder of the export,

  cmake -S MNN -B build -DCMAKE_TOOLCHAIN_FILE=$NDK/build/cmake/android.toolchain.cmake -DANDROID_ABI=arm64-v8a \
    -DANDROID_PLATFORM=android-24 -DANDROID_STL=c++_static -DCMAKE_BUILD_TYPE=Release -DMNN_SEP_BUILD=OFF \
    -DMNN_BUILD_FOR_ANDROID_COMMAND=ON -DMNN_USE_LOGCAT=OFF -DMNN_BUILD_TOOLS=OFF && cmake --build build --target MNN
  $NDK/toolchains/llvm/prebuilt/linux-x86_64/bin/clang++ --target=aarch64-linux-android24 -std=c++17 -O2 \
    -static-libstdc++ -IMNN/include runner.cpp build/libMNN.so -o build/wattstep-mnn-runner

Called as `wattstep-mnn-runner check` it says its format and MNN's version. Else its argument is a plan, a text of
lines "KEY VALUES", and it appends to the file "journal" lines of words with tabs between them, times in ns of
CLOCK_MONOTONIC, CPU times in ns of the process:

  H VERSION THREADS                    MNN's version and threads; training begins
  C BEFORE REAL BOOT AFTER             wall clock and time since the start of the system, read between two times
  S INDEX BEGIN RUN END CPU0 CPU1 LOSS a step: its batch, from RUN on the graph; the process's CPU time at both ends
  N NAME TYPE WORK SHAPES              an operation of the graph, in the order in which they run, before the first T
  T OPENED, then as S                  a traced step; from OPENED to the next M nothing is training
  P BEGIN LENGTH BEGIN LENGTH ...      its operations: each begin after the step's
  M KIND TIME BYTES                    memory: "peak", "traced" (a peak with tracing in it), "before", "after" a window
  X WHAT NUMBER                        what the reader must know: "least", "windows", "reset", "stopped"
  E                                    the end
*/

#include <MNN/Interpreter.hpp>
#include <MNN/Tensor.hpp>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fcntl.h>
#include <fstream>
#include <memory>
#include <sched.h>
#include <sstream>
#include <string>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <vector>

namespace {

const char kFormat[] = "wattstep-mnn-runner 1";
const int kMostThreads = 4;          // MNN's own choice where nobody says otherwise
const int64_t kFlushNs = 250000000;  // what a killed process may take along
const int64_t kClockNs = 1000000000;

// As of the recorder on a computer (record/tracing/schedule.py, train/loop.py).
const int kWantedWindows = 10, kEnoughWindows = 60, kLeastClean = 3, kFewestSteps = 3;
const double kStartupBudget = 0.25, kBudget = 0.01, kSpacingNs = 60e9;
const double kStepsTimes = 2, kMostTimes = 3, kBesideNs = 10e9;

volatile sig_atomic_t stop_asked = 0;

int64_t Now(clockid_t clock = CLOCK_MONOTONIC) {
  timespec t;
  clock_gettime(clock, &t);
  return int64_t(t.tv_sec) * 1000000000 + t.tv_nsec;
}

[[noreturn]] void Fail(const std::string& why) {
  fprintf(stderr, "runner: %s\n", why.c_str());
  exit(3);
}

struct Input {
  std::string name, file;
  int64_t bytes = 0;  // of a batch
  const char* data = nullptr;
  MNN::Tensor* tensor = nullptr;
  std::unique_ptr<MNN::Tensor> host;
};

struct Plan {
  std::string graph, trace = "none";
  int threads = 0, warmup = 0, least_steps = 1, batches = 1, every = 0;
  int64_t steps = 0;
  double seconds = 0, rate = 0, beta1 = 0, beta2 = 0;
  bool adam = false;
  std::vector<Input> inputs;
};

Plan ReadPlan(const char* path) {
  Plan plan;
  std::ifstream file(path);
  std::string line, key;
  if (!file) Fail(std::string("cannot read ") + path);
  while (std::getline(file, line)) {
    std::istringstream words(line);
    words >> key;
    if (key == "graph") words >> plan.graph;
    else if (key == "threads") words >> plan.threads;
    else if (key == "warmup") words >> plan.warmup;
    else if (key == "steps") words >> plan.steps;
    else if (key == "seconds") words >> plan.seconds;
    else if (key == "least_steps") words >> plan.least_steps;
    else if (key == "trace") words >> plan.trace >> plan.every;
    else if (key == "batches") words >> plan.batches;
    else if (key == "adam") words >> plan.rate >> plan.beta1 >> plan.beta2, plan.adam = true;
    else if (key == "input") {
      Input input;
      words >> input.name >> input.file >> input.bytes;
      plan.inputs.push_back(std::move(input));
    } else Fail("the plan has an unknown line: " + line);
  }
  return plan;
}

class Journal {
 public:
  Journal() : file_(open("journal", O_WRONLY | O_CREAT | O_APPEND, 0600)) {
    if (file_ < 0) Fail(std::string("cannot make its journal: ") + strerror(errno));
  }

  void Add(const char* format, ...) __attribute__((format(printf, 2, 3))) {
    char line[256];
    va_list values;
    va_start(values, format);
    int size = vsnprintf(line, sizeof line, format, values);
    va_end(values);
    text_.append(line, std::min<size_t>(size, sizeof line - 1));
  }

  void AddText(const std::string& text) { text_ += text; }

  void Flush() {
    for (size_t at = 0; at < text_.size();) {
      ssize_t size = write(file_, text_.data() + at, text_.size() - at);
      if (size < 0) Fail(std::string("cannot write its journal: ") + strerror(errno));
      at += size;
    }
    text_.clear();
    flushed_ = Now();
  }

  void Look(int64_t now) {
    if (now - flushed_ > kFlushNs) Flush();
  }

 private:
  int file_;
  int64_t flushed_ = 0;
  std::string text_;
};

int64_t Resident(const char* key) {
  std::ifstream status("/proc/self/status");
  std::string line;
  while (std::getline(status, line))
    if (line.compare(0, strlen(key), key) == 0) return 1024 * atoll(line.c_str() + strlen(key) + 1);
  return 0;
}

bool ResetPeak() {
  int file = open("/proc/self/clear_refs", O_WRONLY);
  bool done = file >= 0 && write(file, "5", 1) == 1;
  if (file >= 0) close(file);
  return done;
}

std::string Plain(const std::string& text) {
  std::string plain = text;
  for (char& letter : plain)
    if ((unsigned char)letter < 32 || letter == 127) letter = '?';
  return plain.empty() ? "-" : plain;
}

std::string ShapesOf(const std::vector<MNN::Tensor*>& tensors) {
  std::string text;
  for (const MNN::Tensor* tensor : tensors) {
    if (!text.empty()) text += ';';
    std::string shape;
    for (int size : tensor->shape()) shape += (shape.empty() ? "" : "x") + std::to_string(size);
    text += shape.empty() ? "scalar" : shape;
  }
  return text.empty() ? "-" : text;
}

// Which steps are traced: as `Schedule` of wattstep.record.tracing.schedule decides.
class Schedule {
 public:
  explicit Schedule(const Plan& plan) : every_(plan.every), next_(plan.trace == "none" ? INT64_MAX : plan.warmup + kLeastClean) {}

  bool Due(int64_t index) const { return index >= next_; }
  void TraceNow(int64_t index) { next_ = index; }
  int windows() const { return windows_; }

  void CleanStep(int64_t took_ns) {
    clean_.push_back(took_ns);
    if (clean_.size() > 31) clean_.pop_front();
  }

  void AfterWindow(int64_t index, int64_t window_ns) {
    windows_++;
    if (every_ > 0) {
      next_ = index + 1 + Drawn(every_, 1);
      return;
    }
    double typical = std::max(Typical(), 1.0), cost = std::max(window_ns - typical, 0.0);
    double spacing = cost / (windows_ < kWantedWindows ? kStartupBudget : kBudget);
    double least = kLeastClean;
    if (windows_ >= kEnoughWindows) {
      spacing = std::max(spacing, kSpacingNs);
      least = std::ceil(spacing / typical);
    }
    next_ = index + 1 + Drawn(int64_t(std::max(least, std::ceil(spacing / typical))), int64_t(least));
  }

 private:
  double Typical() const {
    if (clean_.empty()) return 0;
    std::vector<int64_t> sorted(clean_.begin(), clean_.end());
    std::sort(sorted.begin(), sorted.end());
    size_t half = sorted.size() / 2;
    return sorted.size() % 2 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2.0;
  }

  int64_t Drawn(int64_t gap, int64_t least) {
    int64_t half = std::max<int64_t>(gap / 2, 1), low = std::max(gap - half, least);
    random_ = random_ * 6364136223846793005u + 1442695040888963407u;
    return low + int64_t((random_ >> 33) % uint64_t(gap + half - low + 1));
  }

  int every_, windows_ = 0;
  int64_t next_;
  uint64_t random_ = 9;
  std::deque<int64_t> clean_;
};

class Training {
 public:
  explicit Training(Plan& plan) : plan_(plan), schedule_(plan) {
    for (Input& input : plan.inputs) Map(input);
    net_.reset(MNN::Interpreter::createFromFile(plan.graph.c_str()));
    if (!net_) Fail("MNN does not read " + plan.graph);
    MNN::ScheduleConfig config;
    config.type = MNN_FORWARD_CPU;
    config.numThread = threads_ = plan.threads > 0 ? plan.threads : DefaultThreads();
    session_ = net_->createSession(config);
    if (!session_) Fail("MNN makes no session of " + plan.graph);
    for (Input& input : plan.inputs) Connect(input);
    if (plan.adam) {
      rate_ = Scalar("rate");
      correction_ = Scalar("correction");
    }
    size_t inputs = plan.inputs.size() + (plan.adam ? 2 : 0);
    if (net_->getSessionInputAll(session_).size() != inputs) Fail("the graph has other inputs than the plan");
    loss_ = net_->getSessionOutput(session_, "loss");
    if (!loss_) Fail("the graph tells no loss");
    loss_host_.reset(new MNN::Tensor(loss_, MNN::Tensor::CAFFE));
  }

  void Run() {
    can_reset_ = ResetPeak();
    if (!can_reset_) journal_.Add("X\treset\t0\n");
    journal_.Add("H\t%s\t%d\n", Plain(MNN::getVersion()).c_str(), threads_);
    StampClock();
    journal_.Flush();
    warmed_ = Now();
    while (index_ < plan_.warmup && !stop_asked) Step();
    begun_ = Now();
    clean_ = 0;
    while (!stop_asked && !Done()) Step();
    Finish();
    Memory("peak", "VmHWM");
    if (stop_asked) journal_.Add("X\tstopped\t0\n");
    StampClock();
    journal_.AddText("E\n");
    journal_.Flush();
  }

 private:
  static int DefaultThreads() {
    cpu_set_t cores;
    CPU_ZERO(&cores);
    int count = sched_getaffinity(0, sizeof cores, &cores) == 0 ? CPU_COUNT(&cores) : 1;
    return std::max(1, std::min(count, kMostThreads));
  }

  void Map(Input& input) {
    int file = open(input.file.c_str(), O_RDONLY);
    struct stat facts;
    if (file < 0 || fstat(file, &facts) != 0) Fail("cannot read " + input.file);
    if (facts.st_size != input.bytes * plan_.batches) Fail(input.file + " is not as long as the plan says");
    void* data = mmap(nullptr, facts.st_size, PROT_READ, MAP_PRIVATE, file, 0);
    if (data == MAP_FAILED) Fail("cannot map " + input.file);
    close(file);
    input.data = static_cast<const char*>(data);
  }

  void Connect(Input& input) {
    input.tensor = net_->getSessionInput(session_, input.name.c_str());
    if (!input.tensor) Fail("the graph has no input " + input.name);
    input.host.reset(new MNN::Tensor(input.tensor, MNN::Tensor::CAFFE));
    if (input.host->size() != input.bytes) Fail("the graph's input " + input.name + " has another size");
  }

  Input Scalar(const char* name) {
    Input input;
    input.name = name;
    input.bytes = sizeof(float);
    Connect(input);
    return input;
  }

  static void Fill(Input& input, const void* data) {
    memcpy(input.host->host<char>(), data, input.bytes);
    input.tensor->copyFromHostTensor(input.host.get());
  }

  void FillBatch() {
    int64_t batch = index_ % plan_.batches;
    for (Input& input : plan_.inputs) Fill(input, input.data + batch * input.bytes);
    if (plan_.adam) {  // corrections of moments that begin with zeros, in float64 as torch has them
      double done = double(index_ + 1);
      float rate = float(plan_.rate / (1 - std::pow(plan_.beta1, done)));
      float correction = float(std::sqrt(1 - std::pow(plan_.beta2, done)));
      Fill(rate_, &rate);
      Fill(correction_, &correction);
    }
  }

  void Step() {
    bool traced = schedule_.Due(index_);
    int64_t opened = 0;
    if (traced) {
      Memory("peak", "VmHWM");
      Memory("before", "VmRSS");
      opened = Now();
    }
    int64_t cpu_begin = Now(CLOCK_PROCESS_CPUTIME_ID), begin = Now();
    FillBatch();
    int64_t run = Now();
    MNN::ErrorCode code = traced ? RunTraced() : net_->runSession(session_);
    loss_->copyToHostTensor(loss_host_.get());
    double loss = loss_host_->host<float>()[0];
    int64_t end = Now(), cpu_end = Now(CLOCK_PROCESS_CPUTIME_ID);
    if (code != MNN::NO_ERROR) Fail("MNN failed in step " + std::to_string(index_) + " with its error " + std::to_string(int(code)));
    if (traced) {
      WriteNames();
      journal_.Add("T\t%lld", (long long)opened);
    } else {
      journal_.AddText("S");
    }
    journal_.Add("\t%lld\t%lld\t%lld\t%lld\t%lld\t%lld\t%.9g\n", (long long)index_, (long long)begin, (long long)run,
                 (long long)end, (long long)cpu_begin, (long long)cpu_end, loss);
    index_++;
    if (traced) EndWindow(opened, begin);
    else if (!after_traced_ && index_ > plan_.warmup) schedule_.CleanStep(end - begin);
    clean_ += !traced && !after_traced_;
    after_traced_ = traced;
    int64_t now = Now();
    if (now - clock_stamped_ > kClockNs) StampClock();
    journal_.Look(now);
  }

  MNN::ErrorCode RunTraced() {
    bool learning = names_.empty();
    times_.clear();
    auto before = [&](const std::vector<MNN::Tensor*>& tensors, const MNN::OperatorInfo* info) {
      if (learning) Learn(tensors, info);
      times_.push_back(Now());
      return true;
    };
    auto after = [&](const std::vector<MNN::Tensor*>&, const MNN::OperatorInfo*) {
      times_.push_back(Now());
      return true;
    };
    return net_->runSessionWithCallBackInfo(session_, before, after, true);
  }

  void Learn(const std::vector<MNN::Tensor*>& tensors, const MNN::OperatorInfo* info) {
    char work[40];
    snprintf(work, sizeof work, "%.9g", double(info->flops()));
    names_.push_back("N\t" + Plain(info->name()) + "\t" + Plain(info->type()) + "\t" + work + "\t" + ShapesOf(tensors) + "\n");
  }

  void WriteNames() {
    if (named_) return;
    for (const std::string& line : names_) journal_.AddText(line);
    named_ = true;
  }

  void EndWindow(int64_t opened, int64_t begin) {
    int64_t last = begin;
    journal_.AddText("P");
    for (size_t at = 0; at + 1 < times_.size(); at += 2) {
      journal_.Add("\t%lld\t%lld", (long long)(times_[at] - last), (long long)(times_[at + 1] - times_[at]));
      last = times_[at + 1];
    }
    journal_.AddText("\n");
    Memory("after", "VmRSS");
    Memory("traced", "VmHWM");
    if (can_reset_) ResetPeak();
    schedule_.AfterWindow(index_ - 1, Now() - opened);
    window_ns_ = Now() - opened;
    journal_.Flush();
  }

  void Memory(const char* kind, const char* key) {
    journal_.Add("M\t%s\t%lld\t%lld\n", kind, (long long)Now(), (long long)Resident(key));
  }

  void StampClock() {
    int64_t before = Now(), real = Now(CLOCK_REALTIME), boot = Now(CLOCK_BOOTTIME), after = Now();
    journal_.Add("C\t%lld\t%lld\t%lld\t%lld\n", (long long)before, (long long)real, (long long)boot, (long long)after);
    clock_stamped_ = after;
  }

  bool Done() {
    if (plan_.steps > 0) return clean_ >= plan_.steps;
    int64_t now = Now();
    if (now - warmed_ > kStepsTimes * plan_.seconds * 1e9 && clean_ >= kFewestSteps) {
      if (clean_ < plan_.least_steps) journal_.Add("X\tleast\t%lld\n", (long long)clean_);
      return true;
    }
    return now - begun_ >= plan_.seconds * 1e9 && clean_ >= plan_.least_steps;
  }

  // Traced steps that a short run still lacks, as long as there is time.
  void Finish() {
    if (plan_.trace == "none") return;
    int64_t took = Now() - begun_;
    double step = double(took) / std::max<int64_t>(clean_, 1);
    double until = plan_.steps > 0 ? Now() + std::max(double(took), kBesideNs) : warmed_ + kMostTimes * plan_.seconds * 1e9;
    while (schedule_.windows() < kWantedWindows && !stop_asked) {
      int clean = schedule_.windows() ? kLeastClean : 0;
      if (schedule_.windows() && Now() + clean * step + std::max(step, double(window_ns_)) > until) {
        journal_.Add("X\twindows\t%d\n", schedule_.windows());
        break;
      }
      schedule_.TraceNow(index_ + clean);
      for (int i = 0; i <= clean && !stop_asked; i++) Step();
    }
  }

  Plan& plan_;
  Journal journal_;
  Schedule schedule_;
  std::unique_ptr<MNN::Interpreter> net_;
  MNN::Session* session_ = nullptr;
  MNN::Tensor* loss_ = nullptr;
  std::unique_ptr<MNN::Tensor> loss_host_;
  Input rate_, correction_;
  int threads_ = 1;
  int64_t index_ = 0, clean_ = 0, warmed_ = 0, begun_ = 0, window_ns_ = 0, clock_stamped_ = 0;
  bool after_traced_ = false, named_ = false, can_reset_ = true;
  std::vector<int64_t> times_;
  std::vector<std::string> names_;
};

}  // namespace

int main(int count, char** arguments) {
  if (count != 2) Fail("one argument: a plan, or check");
  if (strcmp(arguments[1], "check") == 0) {
    printf("%s %s\n", kFormat, MNN::getVersion());
    return 0;
  }
  signal(SIGTERM, [](int) { stop_asked = 1; });
  signal(SIGHUP, SIG_IGN);
  Plan plan = ReadPlan(arguments[1]);
  Training(plan).Run();
  return stop_asked ? 143 : 0;
}
