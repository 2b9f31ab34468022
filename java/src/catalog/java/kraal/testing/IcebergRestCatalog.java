package kraal.testing;

import java.net.InetSocketAddress;
import java.util.Map;

import org.apache.hadoop.conf.Configuration;
import org.apache.iceberg.CatalogUtil;
import org.apache.iceberg.rest.RESTCatalogAdapter;
import org.apache.iceberg.rest.RESTCatalogServlet;
import org.sparkproject.jetty.ee10.servlet.ServletContextHandler;
import org.sparkproject.jetty.ee10.servlet.ServletHolder;
import org.sparkproject.jetty.server.Server;

/**
 * Apache Iceberg's own REST catalog, which its tests use, on loopback. The arguments are a port and the URL of the
 * directory for the tables.
 */
public final class IcebergRestCatalog {
    private IcebergRestCatalog() {
    }

    public static void main(String[] arguments) throws Exception {
        var properties = Map.of("type", "hadoop", "warehouse", arguments[1]);
        var catalog = CatalogUtil.buildIcebergCatalog("backend", properties, new Configuration());
        var context = new ServletContextHandler();
        context.addServlet(new ServletHolder(new RESTCatalogServlet(new RESTCatalogAdapter(catalog))), "/*");
        var server = new Server(new InetSocketAddress("127.0.0.1", Integer.parseInt(arguments[0])));
        server.setHandler(context);
        server.start();
        server.join();
    }
}
