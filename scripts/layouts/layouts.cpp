// What llama.cpp reserves for its graphs, on devices that do not exist: a stand-in backend that allocates nothing and
// says of itself what a real one says (asynchronous, events, pinned host memory, which operations of the host it takes
// over, alignment). Compiled and run by scripts/layouts/record.py.
//
//   layouts < requests      one request a line, key=value; one line of JSON an answer
//
// A model is laid out without its data (no_alloc). For its compute buffers llama.cpp then splits the graph anew and
// forgets what it had kept on a device of its choice; a server does not. So the graph is reserved here as a server
// does, unless a request says measure=1.
#include "ggml-backend-impl.h"
#include "llama.h"
#include "llama-ext.h"

#include <dlfcn.h>
#include <sys/mman.h>

#include <cstdio>
#include <cstring>
#include <iostream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

static bool s_measure = false;

extern "C" void ggml_backend_sched_reserve_size(ggml_backend_sched_t sched, ggml_cgraph * graph, size_t * sizes) {
    if (s_measure) {
        auto * real = (void (*)(ggml_backend_sched_t, ggml_cgraph *, size_t *)) dlsym(RTLD_NEXT, "ggml_backend_sched_reserve_size");
        real(sched, graph, sizes);
        return;
    }
    ggml_backend_sched_reserve(sched, graph);
    for (int i = 0; i < ggml_backend_sched_get_n_backends(sched); i++) {
        sizes[i] = ggml_backend_sched_get_buffer_size(sched, ggml_backend_sched_get_backend(sched, i));
    }
}

// Host buffers of any size are there as long as nobody writes to them.
extern "C" void * ggml_aligned_malloc(size_t size) {
    void * p = size ? mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) : nullptr;
    return p == MAP_FAILED ? nullptr : p;
}
extern "C" void ggml_aligned_free(void * p, size_t size) { if (p) munmap(p, size); }

struct dev_state {
    std::string name;
    size_t memory = 0;
    ggml_backend_buffer_type buft {};
};
static bool s_async = true, s_events = true, s_host = true, s_lend = true;
static size_t s_align = 128;
static std::vector<std::unique_ptr<dev_state>> states;
static std::vector<std::unique_ptr<ggml_backend_device>> devs;
static ggml_backend_buffer_type host_buft {};
static ggml_backend_reg reg {};

static const char * buft_name(ggml_backend_buffer_type_t b) { return ((dev_state *) b->context)->name.c_str(); }
static void * base(ggml_backend_buffer_t) { return (void *) 0x1000; }
static void buf_free(ggml_backend_buffer_t) {}
static void set_t(ggml_backend_buffer_t, ggml_tensor *, const void *, size_t, size_t) {}
static void mem_t(ggml_backend_buffer_t, ggml_tensor *, uint8_t, size_t, size_t) {}
static void get_t(ggml_backend_buffer_t, const ggml_tensor *, void *, size_t, size_t) {}
static void clear_b(ggml_backend_buffer_t, uint8_t) {}
static ggml_backend_buffer_t alloc(ggml_backend_buffer_type_t b, size_t size) {
    ggml_backend_buffer_i i {};
    i.free_buffer = buf_free; i.get_base = base; i.set_tensor = set_t; i.get_tensor = get_t; i.memset_tensor = mem_t; i.clear = clear_b;
    return ggml_backend_buffer_init(b, i, nullptr, size);
}
static size_t align_b(ggml_backend_buffer_type_t) { return s_align; }
static size_t alloc_size(ggml_backend_buffer_type_t, const ggml_tensor * t) { return ggml_nbytes(t); }
static const char * host_name(ggml_backend_buffer_type_t) { return "Pinned"; }
static ggml_backend_buffer_t host_alloc(ggml_backend_buffer_type_t b, size_t size) {
    ggml_backend_buffer_t r = ggml_backend_buft_alloc_buffer(ggml_backend_cpu_buffer_type(), size);
    if (r) r->buft = b;
    return r;
}
static const char * be_name(ggml_backend_t b) { return ((dev_state *) b->context)->name.c_str(); }
static void be_free(ggml_backend_t b) { delete b; }
static ggml_status be_compute(ggml_backend_t, ggml_cgraph *) { return GGML_STATUS_SUCCESS; }
static void be_sync(ggml_backend_t) {}
static void be_ev(ggml_backend_t, ggml_backend_event_t) {}
static const char * d_name(ggml_backend_dev_t d) { return ((dev_state *) d->context)->name.c_str(); }
static void d_mem(ggml_backend_dev_t d, size_t * f, size_t * t) { *f = *t = ((dev_state *) d->context)->memory; }
static enum ggml_backend_dev_type d_type(ggml_backend_dev_t) { return GGML_BACKEND_DEVICE_TYPE_GPU; }
static void d_props(ggml_backend_dev_t d, ggml_backend_dev_props * p) {
    p->name = d_name(d); p->description = d_name(d); p->type = d_type(d); p->device_id = nullptr;
    d_mem(d, &p->memory_free, &p->memory_total);
    p->caps = { s_async, s_host, false, s_events, true };
}
static ggml_backend_t d_init(ggml_backend_dev_t d, const char *) {
    static ggml_guid g = {1,2,3};
    auto * b = new ggml_backend {};
    b->guid = &g; b->device = d; b->context = d->context;
    b->iface.get_name = be_name; b->iface.free = be_free; b->iface.graph_compute = be_compute; b->iface.synchronize = be_sync;
    b->iface.event_record = be_ev; b->iface.event_wait = be_ev;
    return b;
}
static ggml_backend_buffer_type_t d_buft(ggml_backend_dev_t d) { return &((dev_state *) d->context)->buft; }
static ggml_backend_buffer_type_t d_host(ggml_backend_dev_t) { return s_host ? &host_buft : nullptr; }
static bool d_op(ggml_backend_dev_t, const ggml_tensor *) { return true; }
static bool d_sup(ggml_backend_dev_t d, ggml_backend_buffer_type_t b) { return b == d_buft(d); }
static bool d_off(ggml_backend_dev_t, const ggml_tensor * op) {
    if (!s_lend) return false;
    switch (op->op) {
        case GGML_OP_GET_ROWS: return false;
        case GGML_OP_MUL_MAT: return op->ne[1] >= 32;
        case GGML_OP_MUL_MAT_ID: case GGML_OP_ROPE: case GGML_OP_ROPE_BACK: return op->ne[2] >= 32;
        default: return ggml_nrows(op) >= 32;
    }
}
static ggml_backend_event_t ev_new(ggml_backend_dev_t d) { return s_events ? new ggml_backend_event { d, nullptr } : nullptr; }
static void ev_free(ggml_backend_dev_t, ggml_backend_event_t e) { delete e; }
static void ev_sync(ggml_backend_dev_t, ggml_backend_event_t) {}
static const char * r_name(ggml_backend_reg_t) { return "Mock"; }
static size_t r_count(ggml_backend_reg_t) { return devs.size(); }
static ggml_backend_dev_t r_get(ggml_backend_reg_t, size_t i) { return devs[i].get(); }
static void * r_proc(ggml_backend_reg_t, const char *) { return nullptr; }

static std::string log_text;
static void on_log(ggml_log_level l, const char * t, void *) { if (l == GGML_LOG_LEVEL_ERROR || strstr(t, "pipeline") || strstr(t, "sched copies")) log_text += t; }

int main() {
    setenv("GGML_NO_BACKTRACE", "1", 1);
    llama_log_set(on_log, nullptr);
    llama_backend_init();
    reg.api_version = GGML_BACKEND_API_VERSION;
    reg.iface = { r_name, r_count, r_get, r_proc };
    for (int i = 0; i < 4; i++) {
        auto st = std::make_unique<dev_state>();
        st->name = "MOCK" + std::to_string(i);
        auto d = std::make_unique<ggml_backend_device>();
        *d = {};
        d->iface.get_name = d_name; d->iface.get_description = d_name; d->iface.get_memory = d_mem; d->iface.get_type = d_type;
        d->iface.get_props = d_props; d->iface.init_backend = d_init; d->iface.get_buffer_type = d_buft;
        d->iface.get_host_buffer_type = d_host; d->iface.supports_op = d_op; d->iface.supports_buft = d_sup; d->iface.offload_op = d_off;
        d->iface.event_new = ev_new; d->iface.event_free = ev_free; d->iface.event_synchronize = ev_sync;
        d->reg = &reg; d->context = st.get();
        st->buft.iface.get_name = buft_name; st->buft.iface.alloc_buffer = alloc; st->buft.iface.get_alignment = align_b;
        st->buft.iface.get_alloc_size = alloc_size; st->buft.device = d.get(); st->buft.context = st.get();
        states.push_back(std::move(st)); devs.push_back(std::move(d));
    }
    host_buft.iface = ggml_backend_cpu_buffer_type()->iface;
    host_buft.iface.get_name = host_name; host_buft.iface.alloc_buffer = host_alloc;
    host_buft.device = devs[0].get();
    ggml_backend_register(&reg);

    std::string line, loaded; llama_model * model = nullptr;
    while (std::getline(std::cin, line)) {
        std::map<std::string, std::string> q; std::istringstream in(line); std::string w;
        while (in >> w) { auto p = w.find('='); q[w.substr(0, p)] = w.substr(p + 1); }
        auto num = [&](const char * k, long d) { auto it = q.find(k); return it == q.end() || it->second.empty() ? d : atol(it->second.c_str()); };
        log_text.clear();
        int n = num("ndev", 0);
        s_measure = num("measure", 0);
        s_async = num("async", 1); s_events = num("events", 1); s_host = num("host", 1); s_lend = num("lend", 1); s_align = num("align", 128);
        std::vector<float> split; { std::istringstream s(q["split"]); std::string x; while (std::getline(s, x, ',')) split.push_back(atof(x.c_str())); }
        split.resize(16, 0.0f);
        for (auto & s : states) s->memory = size_t(64) << 30;
        std::string key = q["model"] + "|" + std::to_string(n) + q["ngl"] + "|" + q["cpu_moe"] + "|" + q["split"] + "|" + q["host"] + q["async"] + q["events"] + q["align"] + q["repack"] + q["mtp"] + q["lend"];
        if (key != loaded) {
            if (model) llama_model_free(model);
            auto mp = llama_model_default_params();
            mp.no_alloc = true; mp.load_mode = LLAMA_LOAD_MODE_NONE; mp.n_gpu_layers = num("ngl", -1); mp.use_extra_bufts = num("repack", 1);
            mp.load_mtp = num("mtp", 0);
            std::vector<ggml_backend_dev_t> list; for (int i = 0; i < n; i++) list.push_back(devs[i].get()); list.push_back(nullptr);
            mp.devices = list.data();
            if (!q["split"].empty()) mp.tensor_split = split.data();
            std::vector<std::string> pats; std::vector<llama_model_tensor_buft_override> ov;
            int moe = num("cpu_moe", 0);
            for (int i = 0; i < moe; i++) pats.push_back("blk\\." + std::to_string(i) + "\\.ffn_(up|down|gate|gate_up)_(ch|)exps");
            for (auto & p : pats) ov.push_back({ p.c_str(), ggml_backend_cpu_buffer_type() });
            ov.push_back({ nullptr, nullptr });
            if (moe) mp.tensor_buft_overrides = ov.data();
            model = llama_model_load_from_file(q["model"].c_str(), mp);
            loaded = key;
        }
        if (!model) { loaded.clear(); printf("{\"error\": \"load\"}\n"); fflush(stdout); fprintf(stderr, "%s", log_text.c_str()); continue; }
        auto cp = llama_context_default_params();
        cp.n_ctx = num("n_ctx", 4096); cp.n_batch = num("n_batch", 2048); cp.n_ubatch = num("n_ubatch", 512); cp.n_seq_max = num("n_seq_max", 1);
        cp.n_outputs_max = num("n_outputs_max", cp.n_seq_max); cp.n_rs_seq = num("n_rs_seq", 0);
        cp.kv_unified = num("kv_unified", 0); cp.swa_full = num("swa_full", 0); cp.flash_attn_type = (llama_flash_attn_type) num("fa", -1);
        cp.type_k = (ggml_type) num("type_k", 1); cp.type_v = (ggml_type) num("type_v", 1);
        cp.offload_kqv = num("kv_offload", 1); cp.op_offload = num("op_offload", 1); cp.ctx_type = (llama_context_type) num("ctx_type", 0);
        cp.n_threads = cp.n_threads_batch = 1;
        llama_context * ctx = llama_init_from_model(model, cp);
        if (!ctx) { printf("{\"error\": \"context\"}\n"); fflush(stdout); fprintf(stderr, "%s", log_text.c_str()); continue; }
        std::string out;
        for (auto & [b, d] : llama_get_memory_breakdown(ctx)) {
            out += (out.empty() ? "" : ", ") + std::string("\"") + ggml_backend_buft_name(b) + "\": [" + std::to_string(d.model) + ", " + std::to_string(d.context) + ", " + std::to_string(d.compute) + "]";
        }
        int copies = 1; auto at = log_text.find("sched copies = "); if (at != std::string::npos) copies = atoi(log_text.c_str() + at + 15);
        printf("{\"copies\": %d, \"buffers\": {%s}}\n", copies, out.c_str()); fflush(stdout);
        llama_free(ctx);
    }
    return 0;
}
